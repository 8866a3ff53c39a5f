"""Files of rules, read: what an alert needs, and in which order that can be recorded."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def seconds(text: str) -> float:
    """`1h30m` as seconds."""
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)(ms|[smhdw])", text))


@dataclass(frozen=True)
class Group:
    """Rules that Prometheus evaluates together; the moment follows from the name."""

    name: str
    interval: float  # seconds


@dataclass(frozen=True)
class Record:
    """A recording rule."""

    group: Group
    name: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Alert:
    """An alerting rule; times in seconds."""

    group: Group
    name: str
    expr: str
    wait: float = 0.0  # the rule's `for`
    keep: float = 0.0  # the rule's `keep_firing_for`

    @property
    def record(self) -> Record:
        """A series that is there whenever the condition holds."""
        # Without the names of what it is made of: one series, whichever side of an `or` holds.
        return Record(self.group, f"condition:{self.name}", f"({self.expr}) + 0")


class Rules:
    """Rules of some files, each evaluated every `interval` seconds, as promtool does it.

    Args:
        alerts: names of those that are wanted.
    """

    def __init__(
        self, texts: Iterable[str], alerts: Collection[str], interval: float = 60.0
    ) -> None:
        self._wanted = alerts
        self.records: list[Record] = []
        self.alerts: list[Alert] = []
        for text in texts:
            for told in yaml.safe_load(text)["groups"]:
                for rule in told["rules"]:
                    self._add(Group(told["name"], interval), rule)

    def _add(self, group: Group, rule: Mapping[str, Any]) -> None:
        expr = str(rule["expr"])
        if "record" in rule:
            self.records.append(Record(group, rule["record"], expr, rule.get("labels", {})))
        elif rule["alert"] in self._wanted:
            wait, keep = (seconds(rule.get(key, "0s")) for key in ("for", "keep_firing_for"))
            self.alerts.append(Alert(group, rule["alert"], expr, wait, keep))

    def levels(self) -> list[list[Record]]:
        """The alerts' conditions and all that they need, by level: none needs a later one."""
        left = self._needed()
        levels: list[list[Record]] = []
        while left:
            names = {rule.name for rule in left}
            level = [rule for rule in left if not _words(rule.expr) & names]
            assert level, f"these rules need each other: {', '.join(sorted(names))}"
            levels.append(level)
            left = [rule for rule in left if rule not in level]
        return levels

    def _needed(self) -> list[Record]:
        conditions = [alert.record for alert in self.alerts]
        names: set[str] = set()
        wanted = set().union(*(_words(one.expr) for one in conditions))
        while wanted - names:
            names |= wanted
            wanted = set().union(*(_words(one.expr) for one in self.records if one.name in names))
        return [*(rule for rule in self.records if rule.name in names), *conditions]


def _words(expression: str) -> set[str]:
    """Every word of an expression; the metrics' names are among them."""
    return set(_NAME.findall(expression))


def as_file(records: Collection[Record]) -> str:
    """A file of rules with just these, in their groups."""
    groups = [
        {
            "name": group.name,
            "interval": f"{group.interval:g}s",
            "rules": [
                {"record": one.name, "expr": one.expr, "labels": dict(one.labels)}
                for one in records
                if one.group == group
            ],
        }
        for group in dict.fromkeys(one.group for one in records)
    ]
    return yaml.safe_dump({"groups": groups})
