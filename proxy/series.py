"""Counters, gauges and histograms as families of series, handed to prometheus_client as they are.

The client library's own metric classes take a lock for each observation and add a `_created`
series to each; these are plain numbers, kept by one thread.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

Values = tuple[str, ...]


class Count:
    """A number that only goes up; what is taken back is kept as a debt that later additions pay."""

    __slots__ = ("debt", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.debt = 0.0

    def add(self, amount: float) -> None:
        """Add `amount` (not negative), less what is owed."""
        if self.debt:
            paid = min(self.debt, amount)
            self.debt -= paid
            amount -= paid
        self.value += amount

    def settle(self, counted: float, final: float) -> None:
        """Of what was added, `counted` was a guess at `final`."""
        if final >= counted:
            self.add(final - counted)
        else:
            self.debt += counted - final


class Trace(NamedTuple):
    """Where an observation can be looked up, for an exemplar; `at` is seconds since the epoch."""

    id: str
    at: float | None


class Distribution:
    """Observations in buckets: the i-th holds what is at most `bounds[i]`, the last the rest."""

    __slots__ = ("_bounds", "counts", "total", "traces")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        # The latest of each bucket that has one.
        self.traces: dict[int, tuple[float, Trace]] = {}

    def observe(self, value: float, trace: Trace | None = None) -> None:
        """Count one observation, and how to find it."""
        bucket = bisect_left(self._bounds, value)
        self.counts[bucket] += 1
        self.total += value
        if trace is not None:
            self.traces[bucket] = (value, trace)

    def observe_all(self, values: Sequence[float]) -> None:
        """Count many at once."""
        bounds, counts = self._bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += math.fsum(values)


class Family:
    """What all series of one metric share.

    Args:
        labels: names of the labels, in the order in which values are given.
        known: values of the last labels that are known beforehand, one tuple for each combination;
            the labels before them are the `scope`. `((),)` is a metric whose labels are all scope.
    """

    def __init__(
        self, name: str, labels: Sequence[str], help: str, known: Iterable[Values] = ((),)
    ) -> None:
        self.name = name
        self.help = help
        self.labels = tuple(labels)
        self._known = tuple(known)
        self.scope = self.labels[: len(self.labels) - len(self._known[0])]

    def prepare(self, *scope: str) -> None:
        """Make the series of these scope values that do not exist yet, with 0."""
        for values in self._known:
            self.make(scope + values)

    def make(self, values: Values) -> None:
        """Make this series if it does not exist yet."""
        raise NotImplementedError

    def collect(self) -> Metric:
        """A copy of what there is, as prometheus_client takes it."""
        raise NotImplementedError


class Counter(Family):
    """A family of `Count`s."""

    def __init__(
        self, name: str, labels: Sequence[str], help: str, known: Iterable[Values] = ((),)
    ) -> None:
        super().__init__(name, labels, help, known)
        self._series: dict[Values, Count] = {}

    def of(self, *values: str) -> Count:
        """The series with these label values."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Count()
        return series

    def make(self, values: Values) -> None:
        self.of(*values)

    def collect(self) -> CounterMetricFamily:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for values, series in self._series.items():
            family.add_metric(values, series.value)
        return family


class Histogram(Family):
    """A family of `Distribution`s over the same `bounds`: rising, without +Inf."""

    def __init__(
        self, name: str, labels: Sequence[str], help: str, bounds: Sequence[float]
    ) -> None:
        super().__init__(name, labels, help)
        self.bounds = tuple(map(float, bounds))
        self._les = [_le(bound) for bound in (*self.bounds, math.inf)]
        self._series: dict[Values, Distribution] = {}

    def of(self, *values: str) -> Distribution:
        """The series with these label values."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Distribution(self.bounds)
        return series

    def make(self, values: Values) -> None:
        self.of(*values)

    def collect(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for values, series in self._series.items():
            family.add_metric(values, self._buckets(series), series.total)
        return family

    def _buckets(
        self, series: Distribution
    ) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
        buckets: list[tuple[str, float] | tuple[str, float, Exemplar]]
        buckets = list(zip(self._les, accumulate(series.counts), strict=True))
        for bucket, (value, trace) in series.traces.items():
            exemplar = Exemplar({"trace_id": trace.id}, value, trace.at)
            buckets[bucket] = (*buckets[bucket][:2], exemplar)
        return buckets


def _le(bound: float) -> str:
    """As Go writes it, which is what Prometheus makes of any other form."""
    return cast(str, floatToGoString(bound))  # type: ignore[no-untyped-call]


class Gauge(Family):
    """Numbers that are set; a series exists only where its value is known."""

    def __init__(self, name: str, labels: Sequence[str], help: str) -> None:
        super().__init__(name, labels, help)
        self._series: dict[Values, float] = {}

    def set(self, value: float, *values: str) -> None:
        """Set the series with these label values."""
        self._series[values] = value

    def replace(self, series: Mapping[Any, float]) -> None:
        """Set all series (label values to value) at once; others are gone."""
        self._series = dict(series)

    def drop(self, *scope: str) -> None:
        """Forget the series whose first label values are these."""
        first = len(scope)
        self._series = {key: x for key, x in self._series.items() if key[:first] != scope}

    def make(self, values: Values) -> None:
        """Nothing: an unknown value is absent, not 0."""

    def collect(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for values, value in self._series.items():
            family.add_metric(values, value)
        return family
