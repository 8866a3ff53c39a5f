from itertools import pairwise

import pytest

from proxy import buckets


def test_ttft_is_r10_from_a_millisecond_to_125_seconds() -> None:
    assert buckets.TTFT[:11] == (
        *(0.001, 0.00125, 0.0016, 0.002, 0.0025, 0.00315, 0.004, 0.005, 0.0063, 0.008),
        0.01,
    )
    assert buckets.TTFT[-2:] == (100, 125)
    assert len(buckets.TTFT) == 52


@pytest.mark.parametrize(
    ("bounds", "first", "last", "number"),
    [
        (buckets.TPOT, 0.0001, 10, 51),
        (buckets.CHUNK_GAP, 0.0001, 31.5, 56),
        (buckets.DECODE_RATE, 1, 10_000, 41),
        (buckets.PREFILL_RATE, 1, 100_000, 26),
        (buckets.DURATION, 0.01, 3150, 56),
        (buckets.LENGTH, 1, 1048576, 21),
    ],
)
def test_series_have_the_range_of_the_contract(
    bounds: tuple[float, ...], first: float, last: float, number: int
) -> None:
    assert (bounds[0], bounds[-1], len(bounds)) == (first, last, number)
    assert all(low < high for low, high in pairwise(bounds))


def test_bounds_print_as_they_are_written() -> None:
    every = {*buckets.TTFT, *buckets.TPOT, *buckets.CHUNK_GAP, *buckets.DURATION}
    digits = {repr(bound).replace(".", "").strip("0").split("e")[0] for bound in every}
    assert digits == {"1", "125", "16", "2", "25", "315", "4", "5", "63", "8"}


def test_overrides_go_by_name_with_or_without_the_prefix() -> None:
    bounds = buckets.Bounds({"a_seconds": [1, 2], "tokometer_b_seconds": [3]})
    assert bounds.of("tokometer_a_seconds", (9,)) == (1, 2)
    assert bounds.of("tokometer_b_seconds", (9,)) == (3,)
    assert bounds.of("tokometer_c_seconds", (9,)) == (9,)
    bounds.check()


def test_an_override_of_no_histogram_is_named() -> None:
    bounds = buckets.Bounds({"a_secnods": [1]})
    for name in ("tokometer_a_seconds", "tokometer_b_tokens"):
        bounds.of(name, (9,))
    with pytest.raises(ValueError, match=r"a_secnods: did you mean tokometer_a_seconds\?$"):
        bounds.check()
    far = buckets.Bounds({"z": [1]})
    far.of("tokometer_a_seconds", (9,))
    with pytest.raises(ValueError, match=r"tokometer_z: did you mean tokometer_a_seconds\?$"):
        far.check()
