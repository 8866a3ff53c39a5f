"""What settings say of models: dials and objectives, from all the places they can come from."""

from pathlib import Path

import pytest
from test_weights import of_gguf

from proxy.config import load
from proxy.dials import Dials
from proxy.objectives import Objectives
from proxy.roofline import Memory
from proxy.settings import SettingError

URL: dict[str, object] = {"upstream": "http://127.0.0.1:8000"}
FAST = '[upstreams.fast]\nurl = "http://fast"\nprefix = "/fast"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokometer.toml"


def refused(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(SettingError) as refusal:
        load(URL | {"config": str(file)}, {})
    assert "\n" not in str(refusal.value)
    return str(refusal.value).replace(str(file), "FILE")


def test_flags_hold_for_all_upstreams_and_models(file: Path) -> None:
    file.write_text(FAST)
    flags: dict[str, object] = {
        "config": str(file),
        "memory_bandwidth": "H200",
        "devices": "2",
        "bytes_per_token": "96GB",
        "precision": "bf16",
    }
    dials = load(URL | flags, {"TOKOMETER_ENGINE": "vLLM"}).dials
    for upstream in ("default", "fast"):
        found = dials.of(upstream, "m")
        assert found.ceiling == 100
        assert found.info == ("bf16", "2 x H200", "vLLM")


def test_an_upstreams_table_overrides_them_and_a_models_overrides_that(file: Path) -> None:
    file.write_text(
        'memory_bandwidth = "100GB/s"\nbytes_per_token = "2GB"\n'
        + FAST
        + 'memory_bandwidth = "200GB/s"\nengine = "vLLM"\n'
        '[upstreams.fast.models."org/m"]\nactive_parameters = "7B"\nbits_per_weight = 16\n'
    )
    dials = load(URL | {"config": str(file), "engine": "any"}, {}).dials
    assert dials.of("default", "org/m").ceiling == 50
    assert dials.of("fast", "n").ceiling == 100
    assert dials.of("fast", "org/m").ceiling == pytest.approx(200 / 14)
    engines = [dials.of(upstream, "org/m").engine for upstream in ("default", "fast")]
    assert engines == ["any", "vLLM"]


def test_a_size_from_a_flag_takes_back_another_kind_of_size_from_the_file(file: Path) -> None:
    file.write_text('bytes_per_token = "2GB"')
    flags = {"config": str(file), "active_parameters": "7B", "bits_per_weight": "4"}
    found = load(URL | flags, {"TOKOMETER_DEVICES": "3"}).dials.of("default", "m")
    assert found == Dials(active_parameters=7e9, bits_per_weight=4, devices=3)


def test_the_upstream_of_the_flag_has_a_table_without_an_address(file: Path) -> None:
    file.write_text(
        '[upstreams.default]\nprecision = "Q4"\n[upstreams.default.models.m]\nprecision = "Q8"\n'
    )
    config = load(URL | {"config": str(file)}, {})
    assert [one.name for one in config.upstreams] == ["default"]
    assert [config.dials.of("default", model).precision for model in "nm"] == ["Q4", "Q8"]


def test_the_files_of_a_model_are_read_when_settings_are(file: Path, tmp_path: Path) -> None:
    weights = of_gguf(tmp_path / "m.gguf", {"a": 3200})
    config = load(URL | {"weights": str(weights), "memory_bandwidth": "6400B/s"}, {})
    assert config.dials.of("default", "m").ceiling == 2
    with pytest.raises(SettingError, match=r"^flag --weights: cannot read .*x \(No such file"):
        load(URL | {"weights": str(tmp_path / "x")}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('memory_bandwidth = "fast"', "memory_bandwidth in FILE: 'fast' is no device that is"),
        ("memory_bandwidth = []", "memory_bandwidth in FILE: give a text, or off"),
        (FAST + "devices = 0", "upstreams.fast.devices in FILE: '0' will not do: give a whole"),
        (FAST + "device = 1", "upstreams.fast.device in FILE: no such setting: did you mean dev"),
        (FAST + "models = 1", "upstreams.fast.models in FILE: give tables such as [upstreams.f"),
        (
            FAST + "models.m.bits_per_wait = 4",
            'upstreams.fast.models."m".bits_per_wait in FILE: no such setting: did you mean bits',
        ),
        (
            FAST + 'models.m = {bits_per_weight = 4, bytes_per_token = "1GB"}',
            'upstreams.fast.models."m": bytes_per_token and bits_per_weight say the same thing',
        ),
        (
            FAST + 'models.m.active_parameters = "7B"',
            'upstreams.fast.models."m": no ceiling yet: give memory_bandwidth, such as 150GB/s or '
            "H200; and bits_per_weight beside active_parameters",
        ),
        ('[upstreams.slow]\nprecision = "Q4"', "upstreams.slow in FILE: give it url = "),
        ("[objectives]\nttfb = 1", "objectives.ttfb in FILE: no such setting: did you mean ttft?"),
        ("objectives.m.tpot = 0", "objectives.\"m\".tpot in FILE: '0' will not do: give a dur"),
        (
            "[objectives]\ntpot = 1\ntokens_per_second = 1",
            "tpot and tokens_per_second say the same thing: leave one of them out",
        ),
    ],
)
def test_what_is_wrong_is_one_line_that_names_it(file: Path, text: str, said: str) -> None:
    assert refused(file, text).startswith(said)


def test_a_table_for_the_flags_upstream_needs_the_flag(file: Path) -> None:
    file.write_text(FAST + '[upstreams.default]\nprecision = "Q4"')
    with pytest.raises(SettingError, match=r"^upstreams.default: .* or pass --upstream$"):
        load({"config": str(file)}, {})


def test_objectives_come_from_flags_variables_and_the_file(file: Path) -> None:
    file.write_text(
        "[objectives]\nttft = 1\ntokens_per_second = 20\nduration = 60\n"
        '[objectives."org/m"]\nttft = "2s"\ntpot = "off"\n'
    )
    flags = URL | {"config": str(file), "objective_ttft": "250ms"}
    objectives = load(flags, {"TOKOMETER_OBJECTIVE_TPOT": "100ms"}).objectives
    assert objectives.of("n") == Objectives(ttft=0.25, tpot=0.1, duration=60)
    assert objectives.of("org/m") == Objectives(ttft=2, tpot=None, duration=60)


def test_without_any_there_are_none() -> None:
    config = load(URL, {})
    assert config.objectives.of("m").limits() == {}
    assert config.dials.of("default", "m") == Dials()
    assert Dials().memory_bandwidth is None and Memory(1).device is None
