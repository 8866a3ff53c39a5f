"""What records of upstreams set in the metrics: are they well, what are they, their canaries."""

import re

from proxy.channel import Connected, Identity, Probed, Sung
from proxy.facts import INDIFFERENT
from proxy.labels import UNKNOWN, Models, clean
from proxy.metrics import Metrics

_SERVER = re.compile(r"([^/\s(]+)(?:/([^\s(]+))?")


class Standing:
    """Keeps gauges of upstreams. `models` learns what they list."""

    def __init__(self, metrics: Metrics, models: Models) -> None:
        self._metrics = metrics
        self._models = models
        self._told: set[str] = set()  # upstreams that said what they are when they were asked

    def connected(self, record: Connected) -> None:
        """A connection to an upstream was made, or could not be."""
        seconds = record.get("seconds")
        self._metrics.upstream_up.set(float(seconds is not None), record["upstream"])
        if seconds is not None:
            self._metrics.connect.of(record["upstream"]).observe(seconds)

    def identity(self, record: Identity) -> None:
        """An answer to a client named its server: often only the web server's name."""
        found = _SERVER.search(record["server"])
        if found and record["upstream"] not in self._told:
            self._is(record["upstream"], found[1], found[2] or "")

    def probed(self, record: Probed) -> None:
        """An upstream was asked how it is, and perhaps what it is."""
        upstream = record["upstream"]
        self._metrics.upstream_up.set(float(record["up"]), upstream)
        if "engine" not in record:
            return
        self._models.lists(upstream, record["models"], record["engine"] in INDIFFERENT)
        if record["engine"] or record["version"]:
            self._told.add(upstream)
            self._is(upstream, record["engine"], record["version"])
        elif upstream in self._told:
            self._told.remove(upstream)
            self._metrics.upstream_info.drop(upstream)

    def _is(self, upstream: str, engine: str, version: str) -> None:
        """What it was before is over."""
        self._metrics.upstream_info.drop(upstream)
        self._metrics.upstream_info.set(1, upstream, clean(engine), clean(version))

    def sung(self, record: Sung) -> None:
        """A canary came back; what the one before it found is over."""
        metrics, upstream = self._metrics, record["upstream"]
        series = upstream, clean(record["model"]) or UNKNOWN
        for gauge in (metrics.canary_success, metrics.canary_ttft, metrics.canary_decode):
            gauge.drop(upstream)
        metrics.canary_success.set(float(record["success"]), *series)
        if (seconds := record.get("ttft_seconds")) is not None:
            metrics.canary_ttft.set(seconds, *series)
        if (rate := record.get("decode_tokens_per_second")) is not None:
            metrics.canary_decode.set(rate, *series)
