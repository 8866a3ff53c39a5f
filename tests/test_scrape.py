import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.scrape import Scrape, quantile, since

PAGE = """\
# TYPE requests_total counter
requests_total{model="a",outcome="completed"} 3
requests_total{model="a",outcome="rejected"} 1
requests_total{model="b",outcome="completed"} 5
# TYPE ttft histogram
ttft_bucket{model="a",le="0.1"} 1
ttft_bucket{model="a",le="1"} 3
ttft_bucket{model="a",le="+Inf"} 4
ttft_bucket{model="b",le="0.1"} 0
ttft_bucket{model="b",le="1"} 2
ttft_bucket{model="b",le="+Inf"} 2
"""


@pytest.fixture
def page() -> Scrape:
    return Scrape(PAGE, 7.0)


def test_a_total_is_over_all_series_with_the_labels(page: Scrape) -> None:
    assert page.at == 7.0
    assert page.total("requests_total") == 9
    assert page.total("requests_total", model="a") == 4
    assert page.total("requests_total", model="a", outcome="rejected") == 1


def test_what_is_not_there_adds_up_to_0(page: Scrape) -> None:
    assert page.total("requests_total", model="c") == 0
    assert page.total("nothing_total") == 0
    assert page.buckets("nothing") == []


def test_the_values_of_a_label(page: Scrape) -> None:
    assert page.values("requests_total", "model") == {"a", "b"}


def test_a_histogram_is_summed_up_over_its_series(page: Scrape) -> None:
    assert page.buckets("ttft") == [(0.1, 1), (1, 5), (math.inf, 6)]
    assert page.buckets("ttft", model="b") == [(0.1, 0), (1, 2), (math.inf, 2)]


def test_what_was_observed_between_two_scrapes() -> None:
    assert since([(1, 2), (math.inf, 3)], [(1, 2), (math.inf, 5)]) == [(1, 0), (math.inf, 2)]


def test_before_a_histogram_was_there_it_had_observed_nothing() -> None:
    assert since([], [(1, 2), (math.inf, 5)]) == [(1, 2), (math.inf, 5)]


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0.25, 0.5),  # 2nd of 8: half of the way through the first bucket
        (0.5, 1.0),
        (0.75, 2.0),  # 6th of 8: half of the way from 1 to 3
        (0.99, 3.0),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(q: float, expected: float) -> None:
    assert quantile(q, [(1.0, 4), (3.0, 8), (math.inf, 8)]) == pytest.approx(expected, abs=0.05)


def test_past_the_last_bound_a_quantile_is_that_bound() -> None:
    assert quantile(0.5, [(1.0, 1), (math.inf, 9)]) == 1.0


@pytest.mark.parametrize("buckets", [[], [(1.0, 0), (math.inf, 0)]])
def test_without_samples_there_is_no_quantile(buckets: list[tuple[float, float]]) -> None:
    assert quantile(0.5, buckets) is None


@given(st.lists(st.floats(0.001, 99), min_size=1), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_the_sample_of_that_rank(
    samples: list[float], q: float
) -> None:
    bounds = [1.0, 2.0, 5.0, 10.0, 100.0]
    buckets = [(bound, float(sum(one <= bound for one in samples))) for bound in bounds]
    found = quantile(q, [*buckets, (math.inf, float(len(samples)))])
    true = sorted(samples)[max(0, math.ceil(q * len(samples)) - 1)]
    above = next(bound for bound in bounds if true <= bound)
    below = max([0.0, *(bound for bound in bounds if bound < true)])
    assert found is not None
    assert below - 1e-9 <= found <= above + 1e-9
