import dataclasses
import math

import pytest

from proxy.engine import EngineSettings
from proxy.settings import Setting, SettingError, settings_of

SETTINGS = {setting.name: setting for setting in settings_of(EngineSettings)}


def test_every_field_is_a_setting_that_says_what_it_does() -> None:
    assert list(SETTINGS) == [field.name for field in dataclasses.fields(EngineSettings)]
    assert all(setting.help for setting in SETTINGS.values())


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_every_default_is_a_value_that_a_user_could_give(setting: Setting) -> None:
    shown = setting.shown or str(setting.default)
    assert setting.value(shown, setting.flag) == setting.default


def test_models_are_given_with_commas() -> None:
    assert SETTINGS["models"].value("one, two", "--models") == ("one", "two")
    with pytest.raises(SettingError, match="--models: give names"):
        SETTINGS["models"].value("one,,two", "--models")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rate", "0"),
        ("prefill_rate", "0"),
        ("ttft", "-1"),
        ("error_rate", "1.1"),
        ("stall", "2"),
        ("max_concurrency", "0"),
        ("tokens_per_chunk", "0"),
        ("answer_tokens", "0"),
        ("port", "65536"),
        ("jitter", str(math.nan)),
    ],
)
def test_a_value_that_no_engine_can_have_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=f"--{name}"):
        SETTINGS[name].value(text, f"--{name}")
