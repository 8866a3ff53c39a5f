"""The families of one registry: made here, collected together, prepared by scope."""

from collections.abc import Mapping, Sequence

from prometheus_client.core import Metric

from proxy import buckets
from proxy.labels import SCOPE
from proxy.series import Counter, Family, Gauge, Histogram, Values


class Families:
    """Metrics with `tokometer_` before their names, in the order in which they are made.

    Args:
        overrides: bounds by metric name (see `buckets.Bounds`).
    """

    def __init__(self, overrides: Mapping[str, Sequence[float]]) -> None:
        self._families: list[Family] = []
        self._bounds = buckets.Bounds(overrides)

    def complete(self) -> None:
        """All are made. ValueError (one line) if an override names no histogram."""
        self._bounds.check()
        self.prepare()

    def prepare(self, *scope: str) -> None:
        """Make the series of an upstream, a model, an api ... (values of `SCOPE`), with 0."""
        names = SCOPE[: len(scope)]
        for family in self._families:
            if family.scope == names:
                family.prepare(*scope)

    def leave_out(self, beginning: str) -> None:
        """Collect no metric whose name begins so."""
        self._families = [one for one in self._families if not one.name.startswith(beginning)]

    def collect(self) -> list[Metric]:
        """A copy of all metrics, in the order of their definition."""
        return [family.collect() for family in self._families]

    def _counter(
        self, name: str, labels: str, help: str, known: Sequence[Values] = ((),)
    ) -> Counter:
        family = Counter(f"tokometer_{name}", labels.split(), help, known)
        self._families.append(family)
        return family

    def _gauge(self, name: str, labels: str, help: str) -> Gauge:
        family = Gauge(f"tokometer_{name}", labels.split(), help)
        self._families.append(family)
        return family

    def _histogram(self, name: str, labels: str, help: str, bounds: Sequence[float]) -> Histogram:
        full = f"tokometer_{name}"
        family = Histogram(full, labels.split(), help, self._bounds.of(full, bounds))
        self._families.append(family)
        return family
