import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.concurrency import MAX_POINTS, Concurrency

Stays = list[tuple[float, float]]


def exact(stays: Stays, begin: float, end: float) -> float:
    inside = (max(0.0, min(end, b) - max(begin, a)) for a, b in stays)
    return sum(inside) / (end - begin)


def test_nobody_was_there_before_the_first() -> None:
    streams = Concurrency()
    assert streams.level(5.0) == 0
    assert streams.mean(1.0, 2.0) == 0
    streams.change(10.0, 1)
    assert [streams.level(at) for at in (9.9, 10.0, 11.0)] == [0, 1, 1]
    assert streams.mean(9.0, 11.0) == 0.5


def test_the_mean_is_weighted_by_time() -> None:
    streams = Concurrency()
    for at, by in ((0.0, 1), (1.0, 1), (2.0, 1), (3.0, -2)):
        streams.change(at, by)
    assert streams.mean(0.0, 4.0) == (1 + 2 + 3 + 1) / 4
    assert streams.mean(0.5, 1.5) == 1.5
    assert streams.mean(2.5, 2.5) == 3


def test_changes_may_come_late() -> None:
    streams = Concurrency()
    for at, by in ((2.0, 1), (1.0, 1), (4.0, -1), (3.0, -1), (1.5, 1)):
        streams.change(at, by)
    assert [streams.level(at) for at in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)] == [0, 1, 2, 3, 2, 1]
    assert streams.mean(1.0, 4.0) == pytest.approx((0.5 + 0.5 * 2 + 3 + 2) / 3)


times = st.floats(0, 100).map(lambda at: round(at, 2))


@given(st.lists(st.tuples(times, times), max_size=30), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_does_not_matter(pairs: Stays, shuffler: random.Random) -> None:
    stays = [(min(pair), max(pair)) for pair in pairs]
    changes = [change for a, b in stays for change in ((a, 1), (b, -1))]
    shuffler.shuffle(changes)
    streams = Concurrency()
    for at, by in changes:
        streams.change(at, by)
    for begin, end in ((0.0, 100.0), (10.0, 11.0), (33.3, 66.6)):
        assert streams.mean(begin, end) == pytest.approx(exact(stays, begin, end), abs=1e-9)
    assert streams.level(50.0) == sum(a <= 50.0 < b for a, b in stays)


def busy(oldest_kept: float) -> tuple[Concurrency, Stays]:
    streams, stays = Concurrency(), []
    chance = random.Random(1)
    for number in range(30_000):
        begin = number / 10
        stays.append((begin, begin + chance.uniform(0, 8)))
        streams.change(begin, 1)
        streams.change(stays[-1][1], -1)
        streams.trim(begin - oldest_kept)
        assert len(streams._times) <= MAX_POINTS + 2
    return streams, stays


def test_what_nobody_asks_for_any_more_goes_first() -> None:
    streams, stays = busy(oldest_kept=20.0)
    for begin, end in ((2985.0, 2999.0), (2999.0, 2999.9)):
        assert streams.mean(begin, end) == pytest.approx(exact(stays, begin, end), abs=1e-6)
    assert streams.level(2990.0) == sum(a <= 2990.0 < b for a, b in stays)


def test_a_stream_that_runs_for_long_still_knows_its_mean() -> None:
    streams, stays = busy(oldest_kept=3000.0)
    for begin, end in ((3.0, 2999.0), (1500.0, 2999.0)):
        assert streams.mean(begin, end) == pytest.approx(exact(stays, begin, end), rel=0.01)
    assert streams.mean(2900.0, 2999.0) == pytest.approx(exact(stays, 2900.0, 2999.0), abs=1e-6)


def test_a_change_from_before_what_is_kept_counts_from_there() -> None:
    streams, _ = busy(oldest_kept=20.0)
    before = streams.level(2999.0)
    streams.change(1.0, 1)
    assert streams.level(2999.0) == before + 1
