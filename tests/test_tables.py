"""Files of settings that nobody writes by hand: numbers without end, nests, broken names."""

from pathlib import Path

import pytest
from test_config import refused_file

from proxy.settings import SettingError
from proxy.tables import read

LONG = "9" * 400
LONGER = "9" * 5000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokometer.toml"


@pytest.mark.parametrize(
    "bounds", [f"1, {LONG}", f"-{LONG}, 1", "1, 1e400", "1, nan", "0x" + "f" * 5000]
)
def test_a_bound_that_is_no_number_of_a_machine_is_refused(file: Path, bounds: str) -> None:
    said = refused_file(file, f"[buckets]\nconnect_seconds = [{bounds}]")
    assert said.startswith(f"buckets.connect_seconds in {file}: give a list of rising numbers")


@pytest.mark.parametrize("number", [LONG, "0x" + "f" * 5000, "-" + LONG])
@pytest.mark.parametrize("setting", ["port", "max_models", "devices", "max_inspect_bytes"])
def test_a_number_of_hundreds_of_digits_is_refused(file: Path, setting: str, number: str) -> None:
    said = refused_file(file, f"{setting} = {number}")
    assert said.startswith(f"{setting} in {file}: '")
    assert "will not do: give a " in said
    assert len(said) < 1100


def test_a_mark_before_the_text_is_no_part_of_it(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[upstreams.a]\r\nurl = 'http://a'\r\n")
    assert read(file) == {"upstreams": {"a": {"url": "http://a"}}}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "/dev/zero has more than 1 MiB"),
        ("/", "cannot read / (Is a directory)"),
        ("a\0b", r"cannot read a\x00b (embedded null byte)"),
    ],
)
def test_what_is_no_file_of_settings_is_named(path: str, why: str) -> None:
    with pytest.raises(SettingError) as refusal:
        read(Path(path))
    assert str(refusal.value) == f"config: {why}: give a TOML file with --config"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f"port = {LONGER}", "a number in it has thousands of digits"),
        ("a = " + "[" * 5000 + "]" * 5000, "it is nested too deep"),
        ("a = " + "{a = " * 5000 + "1" + "}" * 5000, "it is nested too deep"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named_with_the_reason(
    file: Path, content: str, why: str
) -> None:
    assert refused_file(file, content) == (
        f"config: {file} is not TOML ({why}): mend it there, or give another with --config"
    )


@pytest.mark.parametrize(
    "content",
    [
        r'''[upstreams."a\nb"]
url = "http://a"
prefix = "/a"''',
        r"""[upstreams."a\nb"]
url = 1""",
        r"""[upstreams.a]
"a\nb" = 1""",
        r"""[upstreams.default.models."a\nb"]
x = 1""",
        r"""[objectives."a\nb"]
x = 1""",
        r"""[buckets]
"a\nb" = []""",
        r'"a\nb" = 1',
        r'"a\u001b[31mb" = 1',
        r'"a\u2028b" = 1',
        r'log_requests = "/no/such\nfolder/log"',
        r'log_requests = "/no/such\u0000log"',
        r'weights = "a\nb"',
    ],
)
def test_a_name_that_breaks_lines_or_steers_terminals_is_told_in_one_line(
    file: Path, content: str
) -> None:
    said = refused_file(file, content)
    assert said.isprintable()
    assert len(said.splitlines()) == 1


def test_both_names_of_one_histogram_are_refused(file: Path) -> None:
    both = "[buckets]\nconnect_seconds = [1]\ntokometer_connect_seconds = [2]"
    assert refused_file(file, both) == (
        f"buckets in {file}: connect_seconds and tokometer_connect_seconds are one histogram: "
        "leave one of them out"
    )


@pytest.mark.parametrize("under", ["objectives", "upstreams.default.models"])
def test_two_names_that_become_one_label_are_refused(file: Path, under: str) -> None:
    key = "ttft" if under == "objectives" else "devices"
    tables = "\n".join(f'[{under}."{name}"]\n{key} = 1' for name in ("m", "m "))
    assert refused_file(file, tables) == (
        f'{under} in {file}: two tables for the model "m": leave one of them out'
    )


def test_an_objective_in_both_of_its_places_is_refused(file: Path) -> None:
    said = refused_file(file, "objective_ttft = 1\n[objectives]\nttft = 2")
    assert said == (
        "objective_ttft and ttft of [objectives] in the file are the same: leave one out"
    )
