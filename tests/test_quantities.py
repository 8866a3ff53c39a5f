import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quantities import (
    bandwidth,
    bytes_text,
    count,
    decimal,
    duration,
    size,
    size_text,
    whole,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("64MiB", 64 * 2**20),
        ("64 mib", 64 * 2**20),
        ("1.5 KiB", 1536),
        ("10MB", 10_000_000),
        ("2GiB", 2 * 2**30),
        ("7B", 7),
    ],
)
def test_sizes_are_plain_numbers_or_have_a_unit(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "MiB", "-1", "64M", "1e6", "nan", "1 2", "6 4MiB", "٣"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert size(text) is None


@given(st.integers(0, 2**45))
def test_the_text_of_a_size_is_that_size(of: int) -> None:
    assert size(size_text(of)) == of


@pytest.mark.parametrize(
    ("text", "expected"),
    [("150GB/s", 150e9), ("3.35 TB/s", 3.35e12), ("150gb/s", 150e9), ("68.25 GB /s", 68.25e9)],
)
def test_bandwidths_are_sizes_a_second(text: str, expected: float) -> None:
    assert bandwidth(text) == expected


@pytest.mark.parametrize("text", ["", "/s", "150", "150GB", "150GB/m", "150Gb/s", "150Gbit/s"])
def test_what_is_no_bandwidth_in_bytes_is_none(text: str) -> None:
    assert bandwidth(text) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("7e9", 7e9), ("7B", 7e9), ("270 M", 270e6), ("1.5t", 1.5e12), ("8", 8)]
)
def test_large_numbers_can_have_a_letter(text: str, expected: float) -> None:
    assert count(text) == expected


@pytest.mark.parametrize("text", ["", "B", "7GB", "7 billion", "nan"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert count(text) is None


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (150e9, "150 GB"),
        (3.3e9, "3.3 GB"),
        (3.35e12, "3.35 TB"),
        (246587904, "246.6 MB"),
        (2, "2 B"),
    ],
)
def test_bytes_are_told_in_decimal_units(of: float, expected: str) -> None:
    assert bytes_text(of) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5", 5), ("5s", 5), ("0.5 s", 0.5), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("0", 0)],
)
def test_durations_are_seconds_or_have_a_unit(text: str, expected: float) -> None:
    assert duration(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "inf", "1:30", "5 s s"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert duration(text) is None


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("-3", -3), ("+3", 3), ("007", 7)])
def test_whole_numbers(text: str, expected: int) -> None:
    assert whole(text) == expected


@pytest.mark.parametrize("text", ["", "1.0", "1e3", "0x10", "1_000", "9" * 5000, " 1"])
def test_what_is_no_whole_number_is_none(text: str) -> None:
    assert whole(text) is None


@pytest.mark.parametrize(("text", "expected"), [("2.5", 2.5), (".5", 0.5), ("1e-3", 0.001)])
def test_decimal_numbers(text: str, expected: float) -> None:
    assert decimal(text) == expected


@pytest.mark.parametrize("text", ["", ".", "nan", "inf", "1e999", "1,5", "e3"])
def test_what_is_no_finite_number_is_none(text: str) -> None:
    assert decimal(text) is None
