import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.bursts import FEWEST_GAPS, burst_ratio


def ratio(*gaps: float, stall: float = 2.0) -> float | None:
    return burst_ratio(gaps, stall)


def test_an_even_stream_has_none() -> None:
    assert ratio(*[0.02] * 100) == 0
    assert ratio(*[0.012, 0.028] * 50) == 0


@pytest.mark.parametrize("burst", [2, 3, 5, 10])
def test_bursts_of_k_chunks_make_k_less_one_of_k(burst: int) -> None:
    gaps = [*[0.0002] * (burst - 1), 0.05] * 20
    assert ratio(*gaps) == pytest.approx((burst - 1) / burst)


def test_gaps_by_chance_alone_are_under_a_quarter_of_their_mean_in_22_of_100() -> None:
    quantiles = [-0.01 * math.log(1 - (n + 0.5) / 1000) for n in range(1000)]
    assert ratio(*quantiles) == pytest.approx(1 - math.exp(-0.25), abs=0.005)


def test_a_stall_does_not_make_an_even_stream_look_like_a_burst() -> None:
    assert ratio(*[0.02] * 50, 30.0, *[0.02] * 50) == 0
    assert ratio(*[0.02] * 50, 30.0, *[0.02] * 50, stall=60.0) == pytest.approx(100 / 101)


def test_a_pause_of_half_a_second_does_neither() -> None:
    assert ratio(*[0.02] * 50, 0.5, *[0.02] * 50) == 0


def test_few_gaps_tell_nothing() -> None:
    assert ratio(*[0.02] * (FEWEST_GAPS - 1)) is None
    assert ratio(*[0.02] * (FEWEST_GAPS - 1), 30.0) is None
    assert ratio(*[0.02] * FEWEST_GAPS) == 0


def test_gaps_without_length_are_even() -> None:
    assert ratio(*[0.0] * 20) == 0


@given(st.lists(st.floats(0, 2), min_size=FEWEST_GAPS), st.floats(1e-3, 1e3))
def test_it_is_a_share_that_does_not_depend_on_speed_or_order(
    gaps: list[float], speed: float
) -> None:
    found = burst_ratio(gaps, math.inf)
    assert found is not None
    assert 0 <= found < 1
    assert burst_ratio(gaps[::-1], math.inf) == pytest.approx(found, abs=1.1 / len(gaps))
