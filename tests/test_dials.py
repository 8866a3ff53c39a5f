from pathlib import Path

import pytest
from test_weights import of_gguf

from proxy.dials import SETTINGS, Dials, DialTable, Memory, memory, of_models, parameters
from proxy.settings import SettingError, from_file
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
    dials = Dials(
        memory_bandwidth=Memory(round(bandwidth * GB)),
        bytes_per_token=round(size * GB),
        devices=devices,
    )
    assert dials.ceiling is not None
    return dials.ceiling


@pytest.mark.parametrize(("size", "expected"), TABLE)
def test_a_published_table_of_sizes_and_bandwidths(size: float, expected: list[float]) -> None:
    found = [ceiling(bandwidth, size) for bandwidth in (100, 200, 400, 800)]
    assert found == pytest.approx(expected, rel=0.025)


def test_a_published_measurement_reaches_90_of_100_of_its_ceiling() -> None:
    assert ceiling(150, 3.3) == pytest.approx(45, abs=0.5)
    assert 40.9 / ceiling(150, 3.3) == pytest.approx(0.9, abs=0.005)


def test_7b_parameters_of_16_bits_in_14_ms_are_a_terabyte_a_second() -> None:
    dials = Dials(active_parameters=7e9, bits_per_weight=16)
    assert dials.per_token is not None
    assert dials.per_token / 0.014 == pytest.approx(1e12)


def test_a_smaller_file_is_faster_and_reaches_less_of_the_bandwidth() -> None:
    sizes, rates = (14.96, 7.95, 4.58, 2.95), (29.2, 50.9, 71.9, 79.9)
    read = [size * 2**30 * rate / GB for size, rate in zip(sizes, rates, strict=True)]
    assert read == sorted(read, reverse=True)
    assert read[-1] / read[0] == pytest.approx(0.54, abs=0.005)


def test_devices_add_their_bandwidths() -> None:
    assert ceiling(150, 3, devices=4) == pytest.approx(200)


@pytest.mark.parametrize(
    "dials",
    [
        Dials(),
        Dials(memory_bandwidth=Memory(GB)),
        Dials(bytes_per_token=GB),
        Dials(memory_bandwidth=Memory(GB), active_parameters=7e9),
        Dials(memory_bandwidth=Memory(GB), bits_per_weight=4.0),
    ],
)
def test_without_bandwidth_and_size_there_is_no_ceiling(dials: Dials) -> None:
    assert dials.ceiling is None


def test_a_file_tells_the_size(tmp_path: Path) -> None:
    path = of_gguf(tmp_path / "m.gguf", {"a": 3200})
    given = from_file(SETTINGS, {"weights": str(path), "memory_bandwidth": "6400 B/s"}, tmp_path)
    assert Dials(**given).ceiling == 2


def test_labels_are_those_that_are_given() -> None:
    assert Dials().info is None
    assert Dials(engine="vLLM").info == ("", "", "vLLM")
    assert Dials(precision=" bf16\n", hardware="a box").info == ("bf16?", "a box", "")


def test_a_known_device_is_the_hardware_where_nothing_else_is_said() -> None:
    known = Memory(3350 * GB, "H100 SXM")
    assert Dials(memory_bandwidth=known).info == ("", "H100 SXM", "")
    assert Dials(memory_bandwidth=known, devices=8).info == ("", "8 x H100 SXM", "")
    assert Dials(memory_bandwidth=known, hardware="DGX").info == ("", "DGX", "")


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


# --- by upstream and model ----------------------------------------------------------------------


def test_what_is_said_of_a_model_goes_before_what_its_upstream_says() -> None:
    table = DialTable(
        {"engine": "e", "devices": 2, "bytes_per_token": 5},
        {"up": {"engine": "u", "precision": "p"}},
        {("up", "m"): {"engine": "m", "active_parameters": 8.0, "bits_per_weight": 8.0}},
    )
    assert table.of("other", "m") == Dials(engine="e", devices=2, bytes_per_token=5)
    assert table.of("up", "n") == Dials(engine="u", devices=2, bytes_per_token=5, precision="p")
    found = table.of("up", "m")
    assert (found.engine, found.precision, found.devices, found.per_token) == ("m", "p", 2, 8)


def test_models_of_an_upstream_are_tables_in_its_own(tmp_path: Path) -> None:
    table = {"url": "http://a", "models": {"org/m 1": {"bits_per_weight": 4.5}}}
    assert of_models("up", table, tmp_path) == {("up", "org/m 1"): {"bits_per_weight": 4.5}}
    for wrong in (1, {"m": 1}):
        with pytest.raises(SettingError, match=r"give tables such as \[upstreams.up.models.\"MOD"):
            of_models("up", {"models": wrong}, tmp_path)
    with pytest.raises(SettingError, match=r'^upstreams.up.models."m".bits in .*: no such setting'):
        of_models("up", {"models": {"m": {"bits": 4}}}, tmp_path)


def test_two_sizes_are_an_error_that_says_of_what() -> None:
    both = {"bytes_per_token": 5, "active_parameters": 7e9}
    for table, where in (
        (DialTable({}, {"up": both}), "upstreams.up: "),
        (DialTable({}, {}, {("up", "m"): both}), 'upstreams.up.models."m": '),
    ):
        with pytest.raises(SettingError) as refusal:
            table.check(["up"])
        assert str(refusal.value) == (
            f"{where}bytes_per_token and active_parameters say the same thing: "
            "leave one of them out"
        )


def test_a_table_for_no_upstream_is_an_error() -> None:
    DialTable({}, {"default": {}}).check(["default"])
    with pytest.raises(SettingError, match=r"^upstreams.default: .* or pass --upstream$"):
        DialTable({}, {"default": {}}).check(["up"])


def test_what_files_do_not_tell_is_noted() -> None:
    told, untold = Weights(5, 5, ""), Weights(5, 5, "all of it is taken")
    table = DialTable({"weights": told}, {"a": {"weights": untold}}, {("a", "m"): {"devices": 2}})
    assert list(table.notes()) == ["weights: all of it is taken"]
