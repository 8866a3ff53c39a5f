"""Grafana's own alerts: the format that it reads, and that they say what Prometheus's say."""

import re
from typing import Any

import pytest
import yaml
from timelines import ROOT, Rules

FILE = ROOT / "grafana/provisioning/alerting/tokometer.yml"
DOCUMENT = yaml.safe_load(FILE.read_text("utf-8"))
(GROUP,) = DOCUMENT["groups"]
PROMETHEUS = Rules.committed().alerts["rules"]
BOTH = [
    pytest.param(ours, theirs, id=ours["uid"])
    for ours, theirs in zip(GROUP["rules"], PROMETHEUS, strict=True)
]


def test_the_file_is_of_the_only_version_that_there_is() -> None:
    assert DOCUMENT["apiVersion"] == 1
    assert {"orgId", "name", "folder", "interval", "rules"} == GROUP.keys()


def test_uids_and_titles_are_unique_and_uids_short_enough() -> None:
    uids, titles = ([rule[name] for rule in GROUP["rules"]] for name in ("uid", "title"))
    assert len(set(uids)) == len(set(titles)) == len(uids)
    # The database's column has 40 characters.
    assert all(re.fullmatch(r"[a-z0-9-]{1,40}", uid) for uid in uids)


@pytest.mark.parametrize("ours, theirs", BOTH)
def test_it_asks_and_says_what_the_rule_of_prometheus_does(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    query = ours["data"][0]
    assert query["model"]["expr"] == theirs["expr"]
    assert ours["for"] == theirs["for"]
    assert ours["labels"] == theirs["labels"]
    said = {
        key: text.replace("$values.B.Value", "$value") for key, text in ours["annotations"].items()
    }
    assert said == theirs["annotations"]


@pytest.mark.parametrize("ours, theirs", BOTH)
def test_each_step_reads_the_one_before_and_the_last_decides(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    query, *steps = ours["data"]
    assert query["datasourceUid"] == query["model"]["datasource"]["uid"] != "__expr__"
    assert query["relativeTimeRange"]["from"] > query["relativeTimeRange"]["to"] == 0
    assert query["model"]["instant"] is True
    assert [step["model"]["type"] for step in steps] == ["reduce", "math", "threshold"]
    before = query["refId"]
    for step in steps:
        assert step["datasourceUid"] == "__expr__"
        assert step["model"]["refId"] == step["refId"]
        assert before in re.findall(r"\b[A-Z]\b", step["model"]["expression"])
        before = step["refId"]
    assert ours["condition"] == before


@pytest.mark.parametrize("ours, theirs", BOTH)
def test_no_value_is_no_alert(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours["noDataState"] == "OK"
    assert ours["execErrState"] == "Error"


@pytest.mark.parametrize("ours, theirs", BOTH)
def test_nothing_in_it_is_taken_for_a_variable_of_the_environment(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    # Grafana expands $NAME in labels, and ${NAME} in annotations, too.
    assert not any("$" in value for value in ours["labels"].values())
    assert not any("${" in text for text in ours["annotations"].values())
