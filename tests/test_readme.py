"""README.md says what is: its tables are those of the code.

`python tests/test_readme.py` writes the ones that follow from definitions.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from proxy.cli import COMMANDS
from proxy.config import FLAGS, load
from proxy.formats import APIS, TABLE, interface
from proxy.journal import _TOLD
from proxy.metrics import Metrics
from proxy.outcome import Outcome

README = Path(__file__).parents[1] / "README.md"
METRICS = Metrics({})._families


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def written(name: str) -> str:
    found = block(name).search(README.read_text("utf-8"))
    assert found is not None, f"README.md has no <!-- {name} -->"
    return found[2]


def cells(name: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in written(name).splitlines()[2:]
    ]


def coded(cell: str) -> list[str]:
    """What a cell has in `code`."""
    return re.findall(r"`([^`]+)`", cell)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(cell or ' ' for cell in line)} |\n" for line in lines)


def commands() -> str:
    rows = [(f"`tokometer {name}`", command.help) for name, command in COMMANDS.items()]
    return table(("command", "does"), rows)


def settings() -> str:
    rows = [(f"`{one.flag}`", one.default_text, one.help) for one in FLAGS]
    return table(("flag", "default", "meaning"), rows)


def metrics() -> str:
    rows = [
        (f"`{one.name}`", type(one).__name__.lower(), ", ".join(one.labels), one.help)
        for one in METRICS
    ]
    return table(("metric", "type", "labels", "meaning"), rows)


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "metrics": metrics,
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_table_that_follows_from_definitions_is_up_to_date(name: str) -> None:
    assert written(name) == GENERATED[name](), "run: python tests/test_readme.py"


def test_every_interface_is_listed_and_its_paths_are_read_as_such() -> None:
    listed = {coded(api)[0]: coded(paths) for api, paths, *_ in cells("interfaces")}
    assert set(listed) == set(APIS) - {"other"}
    for api, paths in listed.items():
        assert {path: interface(path).api for path in paths} == dict.fromkeys(paths, api)
    met = {id(interface(path)) for paths in listed.values() for path in paths}
    assert [row.path_ends.pattern for row in TABLE if id(row) not in met] == []


def test_every_outcome_is_listed() -> None:
    assert [coded(row[0])[0] for row in cells("outcomes")] == [one.value for one in Outcome]


def test_every_key_of_the_request_log_is_listed() -> None:
    listed = [key for row in cells("log") for key in coded(row[0])]
    assert len(listed) == len(set(listed))
    assert set(listed) == _TOLD | {"time", "concurrency", "decode_concurrency"}


def test_only_metrics_that_exist_are_named() -> None:
    parts = ("", "_bucket", "_sum", "_count")
    exist = {f"{one.name}{part}" for one in METRICS for part in parts}
    named = set(re.findall(r"\btokometer_\w+", README.read_text("utf-8")))
    families = {name for name in named if name.endswith("_")}
    assert named - families - exist == set()
    assert all(any(one.startswith(family) for one in exist) for family in families)


def test_only_flags_that_exist_are_named() -> None:
    exist = {one.flag for command in COMMANDS.values() for one in command.settings()}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README.read_text("utf-8")))
    assert named - exist - {"--help"} == set()


def test_the_settings_file_shown_is_one_that_can_be_used(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "tokometer.toml"
    file.write_text(shown)
    config = load({"config": str(file)}, {})
    assert {one.prefix for one in config.upstreams} == {"/fast", "/hosted"}
    assert Metrics(config.buckets)


def write() -> None:
    for name, make in GENERATED.items():
        mark = f"<!-- {name} -->\n"
        text = README.read_text("utf-8").replace(mark + written(name), mark + make())
        README.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
