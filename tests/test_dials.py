from pathlib import Path

import pytest

from proxy.dials import Dials, DialTable, of_models
from proxy.roofline import Memory
from proxy.settings import SettingError
from proxy.weights import Weights

GB = 10**9


def test_labels_are_those_that_are_given() -> None:
    assert Dials().info is None
    assert Dials(engine="vLLM").info == ("", "", "vLLM")
    assert Dials(precision=" bf16\n", hardware="a box").info == ("bf16?", "a box", "")


def test_a_known_device_is_the_hardware_where_nothing_else_is_said() -> None:
    known = Memory(3350 * GB, "H100 SXM")
    assert Dials(memory_bandwidth=known).info == ("", "H100 SXM", "")
    assert Dials(memory_bandwidth=known, devices=8).info == ("", "8 x H100 SXM", "")
    assert Dials(memory_bandwidth=known, hardware="DGX").info == ("", "DGX", "")


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
    table = DialTable(H200 | {"weights": told}, {"a": {"weights": untold}})
    assert list(table.notes()) == ["weights: all of it is taken"]


H200 = {"memory_bandwidth": Memory(4800 * GB, "H200")}
SIZE = "what is read for each token, as bytes_per_token, weights, or active_parameters and bits_per"


def test_a_ceiling_that_is_only_begun_is_noted_where_it_was() -> None:
    for table, where in (
        (DialTable(H200), ""),
        (DialTable(H200, {"up": {"engine": "e"}}, {("up", "m"): {"precision": "p"}}), ""),
        (DialTable({}, {"up": H200}), "upstreams.up: "),
        (DialTable({}, {"up": H200, "other": {"bytes_per_token": 5}}), "upstreams.up: "),
        (DialTable({}, {}, {("up", "m"): H200}), 'upstreams.up.models."m": '),
    ):
        table.check(["up", "other"])
        note, *_ = table.notes()
        assert note.startswith(f"{where}no ceiling yet: give {SIZE}")


def test_what_is_said_for_all_can_be_meant_for_one() -> None:
    one = {"bytes_per_token": 5}
    for table in (
        DialTable(H200, {}, {("up", "m"): one}),
        DialTable(H200, {"up": one, "other": {}}),
        DialTable({"bits_per_weight": 8.0, **H200}, {}, {("up", "m"): {"active_parameters": 7e9}}),
        DialTable({"bits_per_weight": 8.0, **H200}, {"up": one}),
        DialTable({"memory_bandwidth": None, "precision": "p"}, {"up": {"bytes_per_token": None}}),
    ):
        table.check(["up", "other"])
        assert list(table.notes()) == []


def test_many_models_that_lack_the_same_are_one_note() -> None:
    table = DialTable({}, {}, {("up", name): {"bytes_per_token": 5} for name in "mnop"})
    assert list(table.notes()) == [
        'upstreams.up.models."m": no ceiling yet: give memory_bandwidth, such as 150GB/s or H200 '
        "(and 3 more)"
    ]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (
            DialTable({"active_parameters": 7e9}),
            "no ceiling yet: give memory_bandwidth, such as 150GB/s or H200; and bits_per_weight "
            "beside active_parameters",
        ),
        (
            DialTable(H200, {"up": {"bits_per_weight": 4.0}}),
            "upstreams.up: no ceiling yet: give active_parameters beside bits_per_weight",
        ),
        (
            DialTable(
                {**H200, "bytes_per_token": 5}, {}, {("up", "m"): {"active_parameters": 7e9}}
            ),
            'upstreams.up.models."m": no ceiling yet: give bits_per_weight beside '
            "active_parameters",
        ),
    ],
)
def test_half_a_size_is_an_error(table: DialTable, error: str) -> None:
    with pytest.raises(SettingError) as refusal:
        table.check(["up"])
    assert str(refusal.value) == error
