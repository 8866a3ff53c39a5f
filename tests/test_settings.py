import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from proxy.settings import (
    SettingError,
    add_flags,
    from_environment,
    from_file,
    from_flags,
    settings_of,
    unknown,
)


def lamp(default: Any, **metadata: Any) -> Any:
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Lamp:
    """Settings of a lamp, one of each kind."""

    colour: Literal["red", "green"] = lamp("red", help="what it shines in")
    count: int = lamp(1, least=1, most=9, help="how many")
    power: float = lamp(2.5, least=0, help="watts, 100 % of them")
    on: bool = lamp(False, help="whether it shines")
    fade_seconds: float | None = lamp(None, name="fade", unit="seconds", help="until it is off")
    memory: int = lamp(2048, unit="bytes", help="size of its memory")
    label: str = lamp("lamp", help="what is on it")
    made: str = "no setting"


SETTINGS = settings_of(Lamp)


def value(name: str, raw: object) -> Any:
    return next(one for one in SETTINGS if one.name == name).value(raw, "somewhere")


def test_only_fields_with_help_are_settings() -> None:
    assert [one.name for one in SETTINGS] == [
        "colour",
        "count",
        "power",
        "on",
        "fade",
        "memory",
        "label",
    ]


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("colour", "green", "green"),
        ("count", "3", 3),
        ("count", 3, 3),
        ("power", "1e-1", 0.1),
        ("power", 3, 3.0),
        ("on", "yes", True),
        ("on", "OFF", False),
        ("on", True, True),
        ("on", False, False),
        ("fade", "500ms", 0.5),
        ("fade", "off", None),
        ("memory", "1KiB", 1024),
        ("label", "off", "off"),
    ],
)
def test_values_are_read_by_kind(name: str, raw: object, expected: object) -> None:
    found = value(name, raw)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "raw", "remedy"),
    [
        ("colour", "blue", "'blue' will not do: give red or green"),
        ("count", "0", "'0' will not do: give a whole number from 1 to 9"),
        ("count", "10", "'10' will not do: give a whole number from 1 to 9"),
        ("count", "1.5", "'1.5' will not do: give a whole number from 1 to 9"),
        ("count", True, "'True' will not do: give a whole number from 1 to 9"),
        ("power", "-1", "'-1' will not do: give a number, at least 0"),
        ("on", "maybe", "'maybe' will not do: give true or false"),
        ("fade", "1d", "'1d' will not do: give a duration such as 5, 500ms or 2m, or off"),
        ("memory", "much", "'much' will not do: give a size such as 1000000 or 64MiB"),
        ("label", "", "'' will not do: give a text"),
        ("label", ["a"], "give a text"),
    ],
)
def test_a_bad_value_is_one_line_with_source_and_remedy(
    name: str, raw: object, remedy: str
) -> None:
    with pytest.raises(SettingError) as refusal:
        value(name, raw)
    assert str(refusal.value) == f"somewhere: {remedy}"


def test_a_setting_has_one_name_that_flag_and_variable_follow_from() -> None:
    fade = next(one for one in SETTINGS if one.name == "fade")
    assert (fade.field, fade.flag, fade.variable) == ("fade_seconds", "--fade", "TOKOMETER_FADE")


def parsed(*arguments: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_flags(parser, SETTINGS)
    return from_flags(SETTINGS, vars(parser.parse_args(arguments)))


def test_flags_that_are_not_used_are_absent() -> None:
    assert parsed() == {}


def test_flags_become_values_of_fields() -> None:
    assert parsed("--fade", "2m", "--on", "--count=2") == {
        "fade_seconds": 120.0,
        "on": True,
        "count": 2,
    }
    assert parsed("--no-on") == {"on": False}


def test_a_bad_flag_is_named() -> None:
    with pytest.raises(SettingError, match="flag --count: 'x' will not do"):
        parsed("--count", "x")


def test_help_shows_kind_and_default_of_each_setting() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, SETTINGS)
    text = " ".join(parser.format_help().split())
    assert "--fade SECONDS until it is off (default off)" in text
    assert "--memory BYTES size of its memory (default 2 KiB)" in text
    assert "--colour {red,green} what it shines in (default red)" in text
    assert "watts, 100 % of them (default 2.5)" in text


def test_variables_become_values_of_fields() -> None:
    environ = {"TOKOMETER_FADE": "5", "TOKOMETER_ON": "1", "PATH": "/bin", "COUNT": "3"}
    assert from_environment(SETTINGS, environ) == {"fade_seconds": 5.0, "on": True}


def test_an_empty_variable_counts_as_unset() -> None:
    assert from_environment(SETTINGS, {"TOKOMETER_COUNT": ""}) == {}


def test_an_unknown_variable_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(SettingError) as refusal:
        from_environment(SETTINGS, {"TOKOMETER_COLOR": "red"})
    assert str(refusal.value) == (
        "environment variable TOKOMETER_COLOR: no such setting: did you mean TOKOMETER_COLOUR?"
    )


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(SettingError, match="environment variable TOKOMETER_COUNT: '0' will"):
        from_environment(SETTINGS, {"TOKOMETER_COUNT": "0"})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TOKOMETER_PORT", "tcp://10.0.0.1:8080"),
        ("TOKOMETER_SERVICE_HOST", "10.0.0.1"),
        ("TOKOMETER_SERVICE_PORT_HTTP", "8080"),
        ("TOKOMETER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TOKOMETER_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TOKOMETER_ADMIN_SERVICE_PORT", "9464"),
        ("TOKOMETER_ADMIN_PORT", "tcp://10.0.0.2:9464"),
    ],
)
def test_what_kubernetes_says_of_a_service_of_our_name_is_no_setting(
    variable: str, text: str
) -> None:
    assert from_environment(SETTINGS, {variable: text}) == {}


def test_keys_of_a_file_become_values_of_fields() -> None:
    table = {"fade": "off", "count": 2, "on": True}
    assert from_file(SETTINGS, table, Path("x.toml")) == {
        "fade_seconds": None,
        "count": 2,
        "on": True,
    }


def test_an_unknown_key_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(SettingError) as refusal:
        from_file(SETTINGS, {"fade-seconds": 1}, Path("x.toml"))
    assert str(refusal.value) == "fade-seconds in x.toml: no such setting: leave it out"
    with pytest.raises(SettingError, match=r"lable in x.toml: .* did you mean label\?"):
        from_file(SETTINGS, {"lable": "a"}, Path("x.toml"))


def test_keys_of_a_table_are_named_with_it() -> None:
    with pytest.raises(SettingError) as refusal:
        from_file(SETTINGS, {"count": 0}, Path("x.toml"), "lamps.hall.")
    assert str(refusal.value).startswith("lamps.hall.count in x.toml: '0' will not do")


@dataclass(frozen=True)
class Shelf:
    """A setting with several values."""

    books: tuple[str, ...] = lamp(
        (), unit="TITLE", parse=str.title, many=True, help="what is on it"
    )


def test_a_setting_can_take_several_values() -> None:
    shelf = settings_of(Shelf)
    parser = argparse.ArgumentParser()
    add_flags(parser, shelf)
    given = vars(parser.parse_args(["--books", "a tale", "b"]))
    assert from_flags(shelf, given) == {"books": ("A Tale", "B")}
    assert from_file(shelf, {"books": ["c"]}, Path("x.toml")) == {"books": ("C",)}
    assert "--books TITLE [TITLE ...]" in parser.format_help()
    assert "default" not in parser.format_help()


def test_a_value_of_no_kind_for_a_parser_is_an_error_too() -> None:
    with pytest.raises(SettingError, match=r"^books in x.toml: give a text$"):
        from_file(settings_of(Shelf), {"books": {}}, Path("x.toml"))


def test_what_is_said_of_a_setting_is_one_line_of_bounded_length() -> None:
    for text, said in [
        ("a\nb\r\x1b\x7f\u2028", r"a\nb\r\x1b\x7f\u2028"),
        ("\udcff·é", r"\udcff·é"),
    ]:
        assert str(SettingError(text)) == said
    long = str(SettingError("begin " + "x" * 100_000 + " end"))
    assert long.startswith("begin x") and long.endswith("x end") and len(long) < 1100


def test_a_name_like_no_other_is_told_to_go() -> None:
    assert unknown("zzz", ["port"]) == "no such setting: leave it out"
