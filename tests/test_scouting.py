import dataclasses
import json
from typing import Any

import pytest

from proxy.config import load
from proxy.scouting import Key, Scouting, by_upstream, keys
from proxy.settings import SettingError

URL = {"upstream": "http://127.0.0.1:8000"}


def test_the_defaults_probe_and_send_no_canary() -> None:
    settings = load(URL, {}).scouting_of("default")
    assert settings == Scouting()
    assert (settings.probe_interval, settings.probe) == (15, "auto")
    assert settings.canary_interval is None
    assert settings.wanted


def test_flags_and_variables_are_about_all_upstreams() -> None:
    environ = {"TOKOMETER_CANARY_MODEL": "m", "TOKOMETER_PROBE_INTERVAL": "off"}
    config = load({**URL, "canary_interval": "5m"}, environ)
    settings = config.scouting_of("default")
    assert (settings.canary_interval, settings.canary_model) == (300, "m")
    assert settings.probe_interval is None
    assert config.scouted
    assert not load({**URL, "probe_interval": "off"}, {}).scouted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("probe_interval", "0"),
        ("probe", "always"),
        ("canary_interval", "0.5"),
        ("canary_api", "responses"),
        ("canary_max_tokens", "1"),
        ("canary_max_tokens", "5000"),
    ],
)
def test_what_will_not_do_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=f"flag --{name.replace('_', '-')}: "):
        load({**URL, name: text}, {})


def test_an_upstream_can_have_settings_of_its_own() -> None:
    general: dict[str, Any] = {"canary_interval": 60.0, "canary_model": "m"}
    tables: dict[str, dict[str, Any]] = {"b": {"canary_interval": None}, "c": {"canary_model": "n"}}
    found = by_upstream(["a", "b", "c"], general, tables, {})
    assert found["a"] == Scouting(canary_interval=60, canary_model="m")
    assert found["b"] == Scouting(canary_model="m")
    assert found["c"] == Scouting(canary_interval=60, canary_model="n")


@pytest.mark.parametrize(
    ("probe", "scheme", "asks"),
    [
        ("auto", "http", True),
        ("auto", "https", False),
        ("ask", "https", True),
        ("connect", "http", False),
    ],
)
def test_what_a_probe_does(probe: Any, scheme: str, asks: bool) -> None:
    assert Scouting(probe=probe).asks(scheme) == asks


def test_a_key_is_for_the_only_upstream_or_for_the_one_it_names() -> None:
    key = {"TOKOMETER_CANARY_KEY": "k"}
    assert keys(["default"], key) == {"default": Key("k")}
    assert keys(["default"], {"TOKOMETER_CANARY_KEY": ""}) == {}
    environ = {"TOKOMETER_CANARY_KEY_A_1": "k1", "TOKOMETER_CANARY_KEY_B": "Basic k2"}
    assert keys(["a-1", "b", "c"], environ) == {"a-1": Key("k1"), "b": Key("Basic k2")}
    assert load(URL, key).scouting_of("default").key.reveal() == "k"


@pytest.mark.parametrize(
    ("names", "variable", "said"),
    [
        (["a", "b"], "TOKOMETER_CANARY_KEY", "for which upstream of a, b"),
        (["a-1", "a_1"], "TOKOMETER_CANARY_KEY_A_1", "for which upstream of a-1, a_1"),
        (["a"], "TOKOMETER_CANARY_KEY_B", "no upstream has this name"),
    ],
)
def test_a_key_that_could_go_to_the_wrong_upstream_is_refused(
    names: list[str], variable: str, said: str
) -> None:
    with pytest.raises(SettingError, match=said) as refusal:
        keys(names, {variable: "very-secret"})
    assert variable in str(refusal.value)
    assert "very-secret" not in str(refusal.value)


@pytest.mark.parametrize("key", ["se\r\nX: cret", "se\ncret", " secret", "secret ", "ключ"])
def test_a_key_that_is_no_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingError, match="TOKOMETER_CANARY_KEY: not fit for a header") as refusal:
        keys(["default"], {"TOKOMETER_CANARY_KEY": key})
    assert key not in str(refusal.value)


def test_a_key_is_no_setting_and_is_not_shown(tmp_path: Any) -> None:
    with pytest.raises(SettingError, match="no such setting"):
        file = tmp_path / "t.toml"
        file.write_text('canary_key = "k"')
        load({**URL, "config": str(file)}, {})
    config = load(URL, {"TOKOMETER_CANARY_KEY": "very-secret"})
    assert "very-secret" not in repr(config)
    with pytest.raises(TypeError):
        json.dumps(dataclasses.asdict(config.scouting_of("default")))
