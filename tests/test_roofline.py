from pathlib import Path

import pytest
from test_weights import of_gguf

from proxy.roofline import Memory, Roofline, memory, parameters
from proxy.settings import from_file, settings_of
from proxy.weights import Weights

GB = 10**9
TABLE = [
    (2.5, [40, 80, 160, 320]),
    (5, [20, 40, 80, 160]),
    (2, [50, 100, 200, 400]),
    (17, [5.9, 11.8, 23.5, 47]),
    (43, [2.3, 4.7, 9.3, 19]),
]


def ceiling(bandwidth: float, size: float, devices: int = 1) -> float:
    roofline = Roofline(
        memory_bandwidth=Memory(round(bandwidth * GB)),
        bytes_per_token=round(size * GB),
        devices=devices,
    )
    assert roofline.ceiling is not None
    return roofline.ceiling


@pytest.mark.parametrize(("size", "expected"), TABLE)
def test_a_published_table_of_sizes_and_bandwidths(size: float, expected: list[float]) -> None:
    found = [ceiling(bandwidth, size) for bandwidth in (100, 200, 400, 800)]
    assert found == pytest.approx(expected, rel=0.025)


def test_a_published_measurement_reaches_90_of_100_of_its_ceiling() -> None:
    assert ceiling(150, 3.3) == pytest.approx(45, abs=0.5)
    assert 40.9 / ceiling(150, 3.3) == pytest.approx(0.9, abs=0.005)


def test_7b_parameters_of_16_bits_in_14_ms_are_a_terabyte_a_second() -> None:
    roofline = Roofline(active_parameters=7e9, bits_per_weight=16)
    assert roofline.per_token is not None
    assert roofline.per_token / 0.014 == pytest.approx(1e12)


def test_a_smaller_file_is_faster_and_reaches_less_of_the_bandwidth() -> None:
    sizes, rates = (14.96, 7.95, 4.58, 2.95), (29.2, 50.9, 71.9, 79.9)
    read = [size * 2**30 * rate / GB for size, rate in zip(sizes, rates, strict=True)]
    assert read == sorted(read, reverse=True)
    assert read[-1] / read[0] == pytest.approx(0.54, abs=0.005)


def test_devices_add_their_bandwidths() -> None:
    assert ceiling(150, 3, devices=4) == pytest.approx(200)


@pytest.mark.parametrize(
    "roofline",
    [
        Roofline(),
        Roofline(memory_bandwidth=Memory(GB)),
        Roofline(bytes_per_token=GB),
        Roofline(memory_bandwidth=Memory(GB), active_parameters=7e9),
        Roofline(memory_bandwidth=Memory(GB), bits_per_weight=4.0),
    ],
)
def test_without_bandwidth_and_size_there_is_no_ceiling(roofline: Roofline) -> None:
    assert roofline.ceiling is None


def test_a_file_tells_the_size(tmp_path: Path) -> None:
    path = of_gguf(tmp_path / "m.gguf", {"a": 3200})
    given = from_file(
        settings_of(Roofline), {"weights": str(path), "memory_bandwidth": "6400 B/s"}, tmp_path
    )
    assert Roofline(**given).ceiling == 2


def test_a_bandwidth_is_a_number_or_a_known_device() -> None:
    assert memory("150GB/s") == Memory(150 * GB)
    assert memory("h200") == Memory(4800 * GB, "H200")
    with pytest.raises(ValueError, match="'150' is no device that is known here"):
        memory("150")
    with pytest.raises(ValueError, match="0 B/s has no ceiling"):
        memory("0GB/s")


def test_parameters_are_a_positive_number() -> None:
    assert parameters("7B") == 7e9
    for text in ("0", "-7e9", "many"):
        with pytest.raises(ValueError, match="give a number such as 7e9 or 7B"):
            parameters(text)


def test_it_is_told_what_is_missing_for_a_ceiling() -> None:
    known = Memory(GB)
    assert Roofline(memory_bandwidth=known, bytes_per_token=GB).missing() is None
    assert Roofline(memory_bandwidth=known, weights=Weights(1, 1, "")).missing() is None
    assert Roofline(bytes_per_token=GB).missing() == (
        "no ceiling yet: give memory_bandwidth, such as 150GB/s or H200"
    )
    assert Roofline(memory_bandwidth=known).missing(str.upper) == (
        "no ceiling yet: give what is read for each token, as BYTES_PER_TOKEN, WEIGHTS, or "
        "ACTIVE_PARAMETERS and BITS_PER_WEIGHT"
    )


def test_of_two_settings_that_belong_together_one_is_half() -> None:
    only = Roofline(memory_bandwidth=Memory(GB), active_parameters=7e9)
    assert only.half == ("bits_per_weight", "active_parameters")
    assert only.missing() == "no ceiling yet: give bits_per_weight beside active_parameters"
    assert Roofline(bits_per_weight=4.0).half == ("active_parameters", "bits_per_weight")
    for whole in (Roofline(), Roofline(active_parameters=7e9, bits_per_weight=4.0)):
        assert whole.half is None
