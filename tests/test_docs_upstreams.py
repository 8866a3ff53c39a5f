"""What docs/upstreams.md says is so."""

import re
from pathlib import Path

from proxy import facts
from proxy.canary import PROMPT
from proxy.config import FLAGS, load
from proxy.metrics import Metrics
from proxy.scouting import VARIABLE, Key, Scouting, keys

TEXT = (Path(__file__).parents[1] / "docs" / "upstreams.md").read_text("utf-8")


def test_only_metrics_and_flags_that_exist_are_named() -> None:
    assert set(re.findall(r"tokometer_\w+", TEXT)) <= {one.name for one in Metrics({})._families}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert named - {"--workers"} <= {one.flag for one in FLAGS}


def test_every_question_is_listed() -> None:
    for question in facts.questions(""):
        assert f"`{question.path}`" in TEXT


def test_the_table_that_is_shown_can_be_used(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "tokometer.toml"
    file.write_text(shown)
    assert load({"config": str(file)}, {}).scouting_of("serverless").probe == "connect"


def test_the_costs_of_canaries_are_those_of_the_defaults() -> None:
    rows = re.findall(r"^\| (\d+) m \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 3
    # About a token for four characters, and what a template puts around them.
    assert 20 <= len(PROMPT) / 4 + 10 <= 30
    for minutes, answers, prompt, output in rows:
        a_day = 1440 // int(minutes)
        assert int(answers.replace(",", "")) == a_day
        assert int(output.replace(",", "")) == a_day * Scouting().canary_max_tokens
        assert abs(int(prompt.replace(",", "")) / (a_day * 30) - 1) < 0.02


def test_the_variable_of_a_key_is_the_one_that_is_named() -> None:
    assert f"`{VARIABLE}_FAST` for `[upstreams.fast]`" in TEXT
    assert keys(["fast", "slow"], {f"{VARIABLE}_FAST": "k"}) == {"fast": Key("k")}
