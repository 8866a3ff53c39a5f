"""One scrape of a /metrics page, and what can be read off it or off the difference of two."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families

Buckets = Sequence[tuple[float, float]]  # upper bound and cumulative count, rising


class Scrape:
    """The samples of a page in Prometheus's text format. Raises ValueError if it is none.

    `at`: when it was taken, seconds of a monotonic clock.
    """

    def __init__(self, text: str, at: float) -> None:
        self.at = at
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples[sample.name].append((sample.labels, sample.value))

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's series with these labels; 0 where there are none."""
        return sum(value for _, value in self._matching(name, labels))

    def values(self, name: str, label: str) -> set[str]:
        """The values that a label of a metric has."""
        return {labels[label] for labels, _ in self._matching(name, {})}

    def buckets(self, name: str, **labels: str) -> Buckets:
        """A histogram, summed up over all series with these labels."""
        counts: dict[float, float] = defaultdict(float)
        for having, value in self._matching(f"{name}_bucket", labels):
            counts[float(having["le"])] += value
        return sorted(counts.items())

    def _matching(
        self, name: str, wanted: Mapping[str, str]
    ) -> list[tuple[Mapping[str, str], float]]:
        return [
            (labels, value)
            for labels, value in self._samples.get(name, ())
            if wanted.items() <= labels.items()
        ]


def since(before: Buckets, now: Buckets) -> Buckets:
    """What a histogram has observed between two scrapes."""
    counted = dict(before)
    return [(bound, count - counted.get(bound, 0.0)) for bound, count in now]


def quantile(q: float, buckets: Buckets) -> float | None:
    """The q-quantile (0 < q < 1) as Prometheus's histogram_quantile has it; None without samples.

    Within a bucket it is interpolated, the first one beginning at 0; past the last finite bound
    it is that bound.
    """
    if not buckets or not buckets[-1][1] > 0:
        return None
    rank = q * buckets[-1][1]
    start, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if bound == math.inf:
                return start
            return start + (bound - start) * (rank - below) / (count - below)
        start, below = bound, count
    return None
