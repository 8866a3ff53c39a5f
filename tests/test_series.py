import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import value

from proxy.series import Count, Counter, Distribution, Gauge, Histogram, Trace


def test_what_was_counted_too_much_is_taken_off_what_comes_next() -> None:
    count = Count()
    count.add(10)
    count.settle(counted=10, final=7)
    assert (count.value, count.debt) == (10, 3)
    count.add(2)
    assert (count.value, count.debt) == (10, 1)
    count.add(4)
    assert (count.value, count.debt) == (13, 0)


def test_settling_up_pays_the_debt_of_others_first() -> None:
    count = Count()
    count.add(5)
    count.settle(counted=5, final=1)
    count.settle(counted=0, final=6)
    assert (count.value, count.debt) == (7, 0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_a_count_never_falls_and_ends_at_the_sum_of_final_counts(
    guesses: list[tuple[int, int]],
) -> None:
    count, before = Count(), 0.0
    for guess, final in guesses:
        count.add(guess)
        count.settle(guess, final)
        assert count.value >= before
        before = count.value
    assert count.value - count.debt == sum(final for _, final in guesses)


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    distribution = Distribution((1.0, 2.0))
    for number in (0.5, 1.0, 1.5, 2.0, 2.1):
        distribution.observe(number)
    assert distribution.counts == [2, 2, 1]
    assert distribution.total == pytest.approx(7.1)


@given(st.lists(st.floats(0, 100)))
def test_many_at_once_are_counted_as_one_by_one(numbers: list[float]) -> None:
    bounds = (0.5, 1.0, 31.5)
    single, bulk = Distribution(bounds), Distribution(bounds)
    for number in numbers:
        single.observe(number)
    bulk.observe_all(numbers)
    assert bulk.counts == single.counts
    assert bulk.total == pytest.approx(single.total)


def test_counters_have_no_created_series() -> None:
    counter = Counter("x_total", ["a"], "help")
    counter.of("1").add(2.5)
    (sample,) = counter.collect().samples
    assert (sample.name, sample.labels, sample.value) == ("x_total", {"a": "1"}, 2.5)


def test_histograms_are_cumulative_with_count_and_sum() -> None:
    histogram = Histogram("x_seconds", ["a"], "help", (0.5, 1048576.0))
    histogram.of("1").observe_all([0.25, 0.25, 3.0, 2e6])
    family = [histogram.collect()]
    buckets = [value(family, "x_seconds_bucket", a="1", le=le) for le in ("0.5", "1.048576e+06")]
    assert buckets == [2, 3]
    assert value(family, "x_seconds_bucket", a="1", le="+Inf") == 4
    assert value(family, "x_seconds_count", a="1") == 4
    assert value(family, "x_seconds_sum", a="1") == 2000003.5
    assert len(family[0].samples) == 5


def test_a_bucket_keeps_the_latest_trace() -> None:
    histogram = Histogram("x_seconds", [], "help", (1.0,))
    histogram.of().observe(0.5, Trace("old", 1.0))
    histogram.of().observe(0.6, Trace("new", None))
    histogram.of().observe(0.7)
    exemplars = [sample.exemplar for sample in histogram.collect().samples]
    assert exemplars == [({"trace_id": "new"}, 0.6, None), None, None, None]


def test_known_last_labels_are_prepared_for_each_scope() -> None:
    counter = Counter("x_total", ["model", "reason"], "help", [("a",), ("b",)])
    counter.of("m", "a").add(1)
    counter.prepare("m")
    assert counter.scope == ("model",)
    found = {tuple(sample.labels.values()): sample.value for sample in counter.collect().samples}
    assert found == {("m", "a"): 1, ("m", "b"): 0}


def test_a_gauge_is_absent_until_it_is_set() -> None:
    gauge = Gauge("x", ["up", "version"], "help")
    gauge.prepare("u", "1")
    assert gauge.collect().samples == []
    gauge.set(1, "u", "1")
    gauge.set(1, "v", "1")
    gauge.drop("u")
    assert [sample.labels for sample in gauge.collect().samples] == [{"up": "v", "version": "1"}]
    gauge.replace({("w", "2"): 3})
    assert value([gauge.collect()], "x", up="w", version="2") == 3


def test_a_copy_does_not_move_with_its_metric() -> None:
    counter = Counter("x_total", [], "help")
    counter.of().add(1)
    copy = counter.collect()
    counter.of().add(math.pi)
    assert copy.samples[0].value == 1
