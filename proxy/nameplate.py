"""What the settings say of a model, beside its measurements: dials and ceiling."""

from proxy.channel import End, Output
from proxy.dials import DialTable
from proxy.labels import OTHER, UNKNOWN
from proxy.live import Exchange, Follower
from proxy.metrics import Metrics


class Nameplate(Follower):
    """Shows the dials of models that the settings name, and of others as soon as they are known."""

    def __init__(self, metrics: Metrics, dials: DialTable) -> None:
        self._metrics = metrics
        self._dials = dials
        self._shown: set[tuple[str, str]] = set()
        for upstream, model in dials.models:
            self._show(upstream, model)

    def output(self, exchange: Exchange, record: Output) -> None:
        self._show(exchange.upstream, exchange.label)

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        self._show(record["upstream"], label)

    def _show(self, upstream: str, model: str) -> None:
        # What several models share has no dials of its own.
        if model in (UNKNOWN, OTHER) or (upstream, model) in self._shown:
            return
        self._shown.add((upstream, model))
        dials = self._dials.of(upstream, model)
        if dials.ceiling is not None:
            self._metrics.ceiling.set(dials.ceiling, upstream, model)
        if dials.info is not None:
            self._metrics.model_info.set(1, upstream, model, *dials.info)
