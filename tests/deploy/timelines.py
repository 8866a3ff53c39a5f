"""Series for promtool from a description: what a counter gains a minute, what a gauge is."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SCOPE = {"job": "tokometer", "upstream": "up", "model": "org/m"}
INSTANCE = {"job": "tokometer", "instance": "a:9464"}
_RECORDED = re.compile(r"\b(?:cell|concurrency|context|instance|model|upstream):\w+:\w+")


@dataclass(frozen=True)
class Series:
    """A series in normal times and after they have changed.

    A counter gains `normal` or `then` a minute, a gauge is it; None is a gauge that is absent.
    """

    name: str
    normal: float | None
    then: float | None
    labels: dict[str, str]

    def quiet(self) -> "Series":
        """A counter that stands still, a gauge that is 0, after the change."""
        return replace(self, then=0.0 if self.then is not None else None)

    def values(self, phases: Sequence[tuple[int, bool]]) -> str:
        """promtool's notation; each phase is minutes and whether times are normal."""
        gains = [(minutes, self.normal if normal else self.then) for minutes, normal in phases]
        is_counter = self.name.endswith(("_total", "_bucket", "_count"))
        return _counter(gains) if is_counter else _gauge(gains)


def _counter(phases: Sequence[tuple[int, float | None]]) -> str:
    pieces, value = [], 0.0
    for minutes, gain in phases:
        assert gain is not None
        pieces.append(f"{value:.9f}+{gain:.9f}x{minutes - 1}")
        value += gain * minutes
    return " ".join(pieces)


def _gauge(phases: Sequence[tuple[int, float | None]]) -> str:
    return " ".join(
        f"_x{minutes}" if value is None else f"{value}+0x{minutes - 1}" for minutes, value in phases
    )


def counts(name: str, normal: float, then: float, **labels: str) -> Series:
    """A counter of the model (or, with `scope`, of something else)."""
    return Series(f"tokometer_{name}", normal, then, {**SCOPE, "instance": "a:9464", **labels})


def gauge(name: str, normal: float | None, then: float | None, **labels: str) -> Series:
    """A gauge of the model."""
    return Series(f"tokometer_{name}", normal, then, {**SCOPE, "instance": "a:9464", **labels})


def histogram(
    name: str, normal: dict[str, float], then: dict[str, float], **labels: str
) -> list[Series]:
    """Buckets (by `le`, not cumulated) and the count; observations a minute."""
    series, before, after = [], 0.0, 0.0
    for bound in [*sorted(normal.keys() | then.keys(), key=float), "+Inf"]:
        before, after = before + normal.get(bound, 0), after + then.get(bound, 0)
        series.append(counts(f"{name}_bucket", before, after, le=bound, **labels))
    return [*series, counts(f"{name}_count", before, after, **labels)]


@dataclass(frozen=True)
class Timeline:
    """Normal for `before` minutes, changed for `during`, normal again for `after`.

    Args:
        step: minutes from one evaluation to the next.
    """

    series: Sequence[Series]
    before: int
    during: int
    after: int
    step: int = 1

    def document(self, expected: dict[str, Any]) -> dict[str, Any]:
        """As an entry of promtool's `tests`."""
        phases = [(self.before, True), (self.during, False), (self.after, True)]
        inputs = [{"series": _selector(one), "values": one.values(phases)} for one in self.series]
        return {"interval": "1m", "input_series": inputs, **expected}


def _selector(series: Series) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in series.labels.items())
    return f"{series.name}{{{labels}}}"


def firing(alert: str, labels: dict[str, str], minutes: dict[int, bool]) -> dict[str, Any]:
    """That an alert with these labels fires in some minutes, and does not in others."""
    chosen = "".join(f',{name}="{value}"' for name, value in labels.items())
    selector = f'ALERTS{{alertname="{alert}",alertstate="firing"{chosen}}}'
    checks = [
        {
            "expr": f"count({selector})",
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
        }
        for minute, fires in minutes.items()
    ]
    return {"promql_expr_test": checks}


class Rules:
    """Rule files as read, of which promtool is given only what an alert needs."""

    def __init__(self, recording: dict[str, Any], alerting: dict[str, Any]) -> None:
        self.groups = recording["groups"]
        (self.alerts,) = alerting["groups"]

    @classmethod
    def committed(cls) -> "Rules":
        folder = ROOT / "deploy/prometheus"
        names = ("tokometer.rules.yml", "tokometer.alerts.yml")
        return cls(*(yaml.safe_load(folder.joinpath(name).read_text("utf-8")) for name in names))

    def alert(self, name: str, labels: dict[str, str]) -> dict[str, Any]:
        """The one alert with this name and, among others, these labels."""
        (found,) = (
            rule
            for rule in self.alerts["rules"]
            if rule["alert"] == name and labels.items() >= rule["labels"].items() - SEVERITIES
        )
        return dict(found)

    def needed(self, expression: str) -> set[str]:
        """Names of the recorded series that it is made of, and those that they are made of."""
        names = set(_RECORDED.findall(expression))
        while True:
            more = {
                name
                for group in self.groups
                for rule in group["rules"]
                if rule["record"] in names
                for name in _RECORDED.findall(rule["expr"])
            }
            if more <= names:
                return names
            names |= more

    def of(self, alert: dict[str, Any]) -> str:
        """A rule file with this alert and what it needs."""
        names = self.needed(alert["expr"])
        groups = [
            {**group, "rules": [rule for rule in group["rules"] if rule["record"] in names]}
            for group in self.groups
        ]
        groups = [group for group in groups if group["rules"]]
        return yaml.safe_dump(
            {"groups": [*groups, {"name": "alerts", "rules": [alert]}]}, sort_keys=False
        )


SEVERITIES = {("severity", severity) for severity in ("critical", "warning", "info")}


def complaints(folder: Path, rules: str, step: int, tests: list[dict[str, Any]]) -> str:
    """What promtool has against these rules on these timelines; empty if nothing."""
    folder.joinpath("rules.yml").write_text(rules, "utf-8")
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{step}m",
        # Else it is another one each time, and an alert may be a step late.
        "group_eval_order": re.findall(r"^- name: (\S+)$", rules, re.MULTILINE),
        "tests": tests,
    }
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump(document, width=1000), "utf-8")
    command = ["promtool", "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else done.stdout + done.stderr
