"""The traffic is what it is said to be."""

import statistics
from collections.abc import Sequence

import pytest

from .export import Export
from .traffic import Change, Demand, Server, Stream, Traffic

_HOURS = 24


def day(change: Change, demand: Demand | None = None) -> Sequence[Sequence[Stream]]:
    """The streams of each minute of a day."""
    traffic = Traffic("day", Server(), demand or Demand(), change, 0, _HOURS * 60)
    return list(traffic.minutes())


@pytest.fixture(scope="module")
def usual() -> Sequence[Sequence[Stream]]:
    return day(Change())


def median(minutes: Sequence[Sequence[Stream]], field: str) -> float:
    values: list[float] = [getattr(one, field) for minute in minutes for one in minute]
    return statistics.median(values)


def test_the_same_seed_is_the_same_traffic(usual: Sequence[Sequence[Stream]]) -> None:
    assert day(Change()) == usual


def test_streams_in_flight_are_arrivals_times_duration(usual: Sequence[Sequence[Stream]]) -> None:
    streams = [one for minute in usual for one in minute]
    busy = sum(one.ttft + one.tpot * one.answer for one in streams) / (_HOURS * 3600)
    # Most streams come when there are many, so that they meet more than the mean of the day.
    met = statistics.mean(one.decoding - 1 for one in streams)
    assert busy == pytest.approx(met, rel=0.25)
    assert busy < met


@pytest.mark.parametrize(
    ("change", "field", "least", "most"),
    [
        (Change(decode=1.25), "tpot", 1.25, 1.35),  # and more, since the server fills up
        (Change(decode=1.25), "decoding", 1.1, 1.4),
        (Change(prefill=1.5), "ttft", 1.5, 1.55),
        (Change(load=2.2), "decoding", 1.7, 3),
        (Change(prompts=5), "prompt", 4.8, 5.2),
        (Change(prompts=5), "ttft", 2, 4),
    ],
)
def test_a_change_changes_what_it_should(
    change: Change,
    field: str,
    least: float,
    most: float,
    usual: Sequence[Sequence[Stream]],
) -> None:
    assert least < median(day(change), field) / median(usual, field) < most


def test_what_the_proxy_would_export_moves_as_the_streams_do() -> None:
    minutes = day(Change(), Demand(per_minute=0.6))
    export = Export("up", minutes, first=0)
    last = _HOURS * 3600
    counted = [line for line in export.lines(last, last + 1) if "_cell_tpot_streams" in line]
    streams = sum(map(len, minutes))
    assert sum(float(line.split()[1]) for line in counted) == streams
    assert len(export.series) > 500 > len(list(export.lines(last, last + 1)))
