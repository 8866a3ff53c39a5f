"""Records as workers send them, for the tests of the keeper's side."""

from collections.abc import Sequence
from typing import Any

from prometheus_client.core import Metric

from proxy.channel import Begin, End, Output


def begin(id: int, at: float, model: str = "m", **more: Any) -> Begin:
    record = {"kind": "begin", "id": id, "upstream": "up", "api": "chat", "stream": True}
    return record | {"model": model, "at": at} | more  # type: ignore[return-value]


def output(id: int, last_at: float, model: str = "m", **more: Any) -> Output:
    record = {"kind": "output", "id": id, "model": model, "last_at": last_at}
    return record | more  # type: ignore[return-value]


def end(id: int, at: float, model: str = "m", **more: Any) -> End:
    """A completed stream, of which nothing is known but that."""
    record = {"kind": "end", "id": id, "at": at, "upstream": "up", "model": model, "api": "chat"}
    record |= {"stream": True, "outcome": "completed", "code": 200, "answered": True}
    return record | more  # type: ignore[return-value]


def rejected(id: int, at: float, model: str = "m", **more: Any) -> End:
    more = {"outcome": "rejected", "code": 429, "answered": False} | more
    return end(id, at, model, **more)


def samples(families: Sequence[Metric]) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Values by the name of the sample and its labels."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def value(families: Sequence[Metric], name: str, **labels: str) -> float | None:
    """The value of the one series of `name` that has just these labels; None if there is none."""
    return samples(families).get(name, {}).get(frozenset(labels.items()))


def total(families: Sequence[Metric], name: str, **labels: str) -> float:
    """The sum of all series of `name` that have these labels, whatever others they have."""
    wanted = set(labels.items())
    series = samples(families).get(name, {})
    return sum(number for labels_, number in series.items() if wanted <= labels_)
