"""docs/dials.md: its commands say what it shows, its queries name what exists."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.config import load
from proxy.dials import Dials
from proxy.metrics import Metrics
from proxy.roofline import Memory

DOCS = Path(__file__).parents[1].joinpath("docs", "dials.md").read_text("utf-8")
FAMILIES = {one.name: one for one in Metrics({})._families}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


SAID = [
    (command, shown)
    for block in blocks("console")
    for command, shown in re.findall(r"^\$ tokometer (.*)\n((?:[^$].*\n)+)", block, re.MULTILINE)
]
QUERIES = [
    re.sub(r"^#.*\n", "", query, flags=re.MULTILINE)
    for block in blocks("promql")
    for query in re.split(r"^(?=#)", block, flags=re.MULTILINE)
    if query
]


@pytest.mark.parametrize(("command", "shown"), SAID, ids=lambda text: text[:40])
def test_a_command_says_what_is_shown(
    command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == shown


def test_the_table_of_ceilings_is_right() -> None:
    (table,) = re.findall(r"<!-- ceilings -->\n(.*?)<!-- end -->", DOCS, re.DOTALL)
    head, _, *rows = [re.findall(r"[\d.]+", line) for line in table.splitlines()]
    assert (len(head), len(rows)) == (4, 5)
    for size, *cells in rows:
        for bandwidth, cell in zip(head, cells, strict=True):
            dials = Dials(Memory(int(bandwidth) * 10**9), bytes_per_token=round(float(size) * 1e9))
            assert dials.ceiling is not None
            assert f"{dials.ceiling:.0f}" == cell or f"{dials.ceiling:.1f}" == cell


def test_the_settings_shown_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = blocks("toml")
    file = tmp_path / "tokometer.toml"
    file.write_text(shown.replace('weights = "/models/model-8b"', 'bytes_per_token = "16GB"'))
    config = load({"config": str(file), "upstream": "http://127.0.0.1:8000"}, {})
    dials = config.dials.of("fast", "org/model-8b")
    assert (dials.ceiling, dials.info) == (600, ("bf16", "2 x H200", "vLLM 0.32"))
    assert config.dials.of("default", "draft").ceiling == pytest.approx(4.8e12 / (1.5e9 * 4.5 / 8))
    assert config.objectives.of("org/model-8b").limits() == {
        "ttft": 0.5,
        "tpot": 0.05,
        "duration": 60,
    }


def test_every_query_can_be_read_by_prometheus(tmp_path: Path) -> None:
    assert len(QUERIES) >= 9
    rules: list[dict[str, Any]] = [
        {"record": f"a:b:c{number}", "expr": query} for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "rules.yml"
    text = "".join(f"  - record: {one['record']}\n    expr: {one['expr']!r}\n" for one in rules)
    file.write_text("groups:\n- name: docs\n  rules:\n" + text.replace("\\n", " "))
    check = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
    assert f"{len(QUERIES)} rules found" in check.stdout


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:40])
def test_queries_name_metrics_labels_and_bounds_that_exist(query: str) -> None:
    for name, matchers in re.findall(r"\b(tokometer_\w+)(?:\{(.*?)\})?", query):
        family = FAMILIES[re.sub(r"_(bucket|count|sum)$", "", name)]
        for label, value in re.findall(r'(\w+)="(.*?)"', matchers):
            if label == "le":
                assert float(value) in family.bounds  # type: ignore[attr-defined]
                assert value == str(float(value))
            else:
                assert label in family.labels


def test_flags_and_metrics_that_are_named_exist() -> None:
    from proxy.cli import COMMANDS

    flags = {one.flag for command in COMMANDS.values() for one in command.settings()}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOCS)) <= flags
    parts = ("", "_bucket", "_count", "_sum")
    names = {f"{name}{part}" for name in FAMILIES for part in parts}
    named = {name for name in re.findall(r"\btokometer_\w+", DOCS) if not name.endswith("_")}
    assert {name for name in named - names if not any(n.startswith(name) for n in names)} == set()
