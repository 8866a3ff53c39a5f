"""How output was delivered: chunks are not tokens, and tokens are not text."""

from proxy.bursts import burst_ratio
from proxy.channel import End
from proxy.live import Exchange, Follower
from proxy.metrics import Metrics


class Delivery(Follower):
    """Observes completed streams; of those whose client held things up not the gaps.

    Args:
        stall_seconds: a longer gap is a stall.
    """

    def __init__(self, metrics: Metrics, stall_seconds: float) -> None:
        self._metrics = metrics
        self._stall_seconds = stall_seconds

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        if record["outcome"] != "completed":
            return
        metrics, scope = self._metrics, (record["upstream"], label)
        if (rate := record.get("decode_characters_per_second")) is not None:
            metrics.decode_characters.of(*scope).observe(rate)
        if (tokens := record.get("tokens_per_chunk")) is not None:
            metrics.tokens_per_chunk.of(*scope).observe(tokens)
        if exchange is not None and record.get("skipped") != "client_limited":
            ratio = burst_ratio(exchange.gaps, self._stall_seconds)
            if ratio is not None:
                metrics.burst_ratio.of(*scope).observe(ratio)
