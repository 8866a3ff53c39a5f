"""Rules as Prometheus has them, and the pieces of PromQL that all of them use."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import dedent

# The labels of a model. Several environments in one Prometheus differ by their job.
MODEL = "job, upstream, model"
CELL = f"{MODEL}, context, concurrency"


@dataclass(frozen=True)
class Record:
    """A recorded series: `level:metric:operations`, PromQL, and what it is (with its unit)."""

    name: str
    expression: str
    meaning: str
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Alert:
    """An alert.

    Args:
        hold: seconds for which it must hold before it fires.
        summary, description: templates of Prometheus, `{{ $value }}`, `{{ $labels.model }}`.
        dashboard: the end of the uid of the board to look at first.
        labels: static ones beside the severity; they tell apart alerts of one name.
        of: labels that its series have and a board has a variable for.
    """

    name: str
    severity: str
    expression: str
    hold: int
    summary: str
    description: str
    dashboard: str
    labels: dict[str, str] = field(default_factory=dict)
    of: tuple[str, ...] = ("job", "upstream", "model")


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated one after the other, every `interval` seconds."""

    name: str
    interval: int
    rules: Sequence[Record]


def promql(text: str) -> str:
    """`text` without the indentation of the source."""
    return dedent(text).strip()


def quoted(text: str) -> str:
    """A string of PromQL, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def total(labels: str, expression: str) -> str:
    """Summed before anything is divided."""
    return f"sum by ({labels}) ({expression})"
