"""Every alert, run by promtool: it fires, not just below, not without traffic, and resolves."""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from examples import Below, Example
from examples_now import EXAMPLES as NOW
from examples_regression import EXAMPLES as REGRESSIONS
from timelines import Rules, Series, Timeline, complaints, firing

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS, Settings

EXAMPLES = [*REGRESSIONS, *NOW]
BELOW = [
    pytest.param(example, below, id=f"{example}: {name}")
    for example in EXAMPLES
    for name, below in example.below.items()
]
LOOSENED = [
    pytest.param(example, below, id=f"{example}: {name}")
    for example in EXAMPLES
    for name, below in example.below.items()
    if below.loosened
]
VARIANTS = [
    pytest.param(example, series, id=f"{example}: {name}")
    for example in EXAMPLES
    for name, series in example.variants.items()
]
COMMITTED = Rules.committed()


def timeline(example: Example, series: Sequence[Series]) -> Timeline:
    return Timeline(series, example.before, example.during, example.after, example.step)


def not_enough(example: Example, below: Below) -> tuple[Timeline, Settings]:
    """The timeline of what is not enough, and settings for it."""
    line = timeline(example, below.series)
    line = replace(line, during=below.during or line.during)
    if example.early is None:
        return line, PRESETS["week"]
    return replace(line, before=example.early), PRESETS["short"]


@cache
def generated(settings: Settings) -> Rules:
    return Rules(files.recording_document(settings), files.alerting_document(settings))


def ever(example: Example, line: Timeline, fires: bool) -> dict[str, Any]:
    """That it fires by the time it should, or never: every few minutes is looked."""
    if fires:
        return firing(example.alert, example.labels, {example.before + example.fires[1]: True})
    end = line.before + line.during + line.after
    times = dict.fromkeys(range(line.before, end, line.step), False)
    return firing(example.alert, {}, times)


def said(
    folder: Path, example: Example, line: Timeline, fires: bool, rules: Rules = COMMITTED
) -> str:
    """What promtool says against the alert's firing, or not firing, on this timeline."""
    alert = rules.alert(example.alert, example.labels)
    tests = [line.document(ever(example, line, fires))]
    return complaints(folder, rules.of(alert), line.step, tests)


def expanded(template: str, labels: dict[str, str]) -> str:
    """An annotation whose templates are plain labels."""

    def label(match: re.Match[str]) -> str:
        value = labels[match[1]]
        return quote_plus(value) if match[2] else value

    return re.sub(r"{{ \$labels\.(\w+)( \| urlquery)? }}", label, template)


def annotated(example: Example, alert: dict[str, Any], minute: int) -> dict[str, Any]:
    """The whole alert, as a receiver gets it at that minute."""
    labels = example.labels
    annotations = {
        name: expanded(text, labels) if name != "summary" else example.summary
        for name, text in alert["annotations"].items()
    }
    expected = {
        "exp_labels": {**labels, "severity": example.severity},
        "exp_annotations": annotations,
    }
    if example.alert == "ProxyAbsent":
        expected["exp_labels"] = {"severity": example.severity}
    return {"eval_time": f"{minute}m", "alertname": example.alert, "exp_alerts": [expected]}


def fires(folder: Path, example: Example) -> str:
    """What promtool has against its firing after its hold, with these words, and its end."""
    line, start = timeline(example, example.series), example.before
    not_yet, by = (start + minutes for minutes in example.fires)
    end = start + example.during + example.after - 1
    alert = COMMITTED.alert(example.alert, example.labels)
    times = {start - line.step: False, not_yet: False, by: True, end: False}
    expected = firing(example.alert, example.labels, times)
    expected["alert_rule_test"] = [annotated(example, alert, by)]
    return complaints(folder, COMMITTED.of(alert), line.step, [line.document(expected)])


def fires_too(folder: Path, example: Example, series: list[Series]) -> str:
    return said(folder, example, timeline(example, series), fires=True)


def silent(folder: Path, example: Example, below: Below) -> str:
    line, settings = not_enough(example, below)
    return said(folder, example, line, fires=False, rules=generated(settings))


def silent_though_loosened(folder: Path, example: Example, below: Below) -> str:
    line, settings = not_enough(example, below)
    rules = generated(replace(settings, **(below.loosened or {})))
    return said(folder, example, line, fires=False, rules=rules)


def silent_without_traffic(folder: Path, example: Example) -> str:
    return silent(
        folder, example, Below(example.quiet or [one.quiet() for one in example.series], None)
    )


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, "Future[str]"]]:
    """What promtool says, by test: all are asked for at once, since one takes one processor."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            item.name: pool.submit(
                asked.kwargs["what"], tmp_path_factory.mktemp("asked"), **item.callspec.params
            )
            for item in request.session.items
            if isinstance(item, pytest.Function) and (asked := item.get_closest_marker("asks"))
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def complaint(request: pytest.FixtureRequest, answers: dict[str, "Future[str]"]) -> str:
    """What promtool says of this test's alert."""
    return answers[request.node.name].result()


@pytest.mark.asks(what=fires)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_it_fires_after_its_hold_says_why_and_resolves(example: Example, complaint: str) -> None:
    assert not complaint, complaint


@pytest.mark.asks(what=fires_too)
@pytest.mark.parametrize("example, series", VARIANTS)
def test_it_fires_in_other_forms_too(
    example: Example, series: list[Series], complaint: str
) -> None:
    assert not complaint, complaint


@pytest.mark.asks(what=silent)
@pytest.mark.parametrize("example, below", BELOW)
def test_it_does_not_fire_just_below(example: Example, below: Below, complaint: str) -> None:
    assert not complaint, complaint


@pytest.mark.asks(what=silent_though_loosened)
@pytest.mark.parametrize("example, below", LOOSENED)
def test_with_that_threshold_a_little_lower_it_would(
    example: Example, below: Below, complaint: str
) -> None:
    assert "exp:" in complaint


@pytest.mark.asks(what=silent_without_traffic)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_it_does_not_fire_without_traffic(example: Example, complaint: str) -> None:
    assert not complaint, complaint


def test_every_alert_has_its_example() -> None:
    found = {
        (example.alert, *COMMITTED.alert(example.alert, example.labels)["labels"].values())
        for example in EXAMPLES
    }
    assert found == {
        (rule["alert"], *rule["labels"].values()) for rule in COMMITTED.alerts["rules"]
    }
