"""Which exchanges met the objectives of the settings."""

from proxy.channel import End, Output
from proxy.labels import UNKNOWN
from proxy.live import Exchange, Follower
from proxy.metrics import Metrics
from proxy.objectives import ALL, ObjectiveTable, verdicts


class Goodput(Follower):
    """Counts verdicts by upstream and model."""

    def __init__(self, metrics: Metrics, objectives: ObjectiveTable) -> None:
        self._metrics = metrics
        self._objectives = objectives
        self._known: set[tuple[str, str]] = set()

    def output(self, exchange: Exchange, record: Output) -> None:
        if exchange.api != "other":
            self._know(exchange.upstream, exchange.label)

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        if record["api"] == "other":  # a list of models, a health check: no model's work
            return
        scope = record["upstream"], label
        self._know(*scope)
        asked = exchange is not None and exchange.begun["stream"]
        waited = record["at"] - exchange.at if exchange is not None else None
        found = verdicts(self._objectives.of(label), record, asked, waited)
        for objective, met in found.items():
            self._metrics.objectives.of(*scope, objective, "true" if met else "false").add(1)

    def _know(self, upstream: str, label: str) -> None:
        """Its series are there, with 0."""
        if label == UNKNOWN or (upstream, label) in self._known:
            return
        self._known.add((upstream, label))
        limits = self._objectives.of(label).limits()
        for objective in (*limits, *([ALL] if limits else [])):
            for met in ("true", "false"):
                self._metrics.objectives.of(upstream, label, objective, met)
