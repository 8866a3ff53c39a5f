"""For each alert what makes it fire, and what is just not enough, gate by gate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from timelines import Series


@dataclass(frozen=True)
class Below:
    """What is just not enough, and the setting, if it is one, with which it would be."""

    series: Sequence[Series]
    loosened: dict[str, Any] | None
    during: int | None = None


@dataclass(frozen=True)
class Example:
    """An alert on a timeline of minutes: `before`, `during`, `after`.

    Args:
        labels: the alert's beside its severity.
        fires: minutes after the change: not yet, and by then.
        summary: as people read it at the second of them.
        early: minutes before the change that do with a short baseline, where that does.
        quiet: the series of which nothing moves, where it is not enough to stop those of `series`.
    """

    alert: str
    labels: dict[str, str]
    severity: str
    series: Sequence[Series]
    fires: tuple[int, int]
    summary: str
    below: dict[str, Below]
    before: int = 60
    during: int = 45
    after: int = 60
    step: int = 1
    early: int | None = None
    quiet: Sequence[Series] | None = None
    variants: dict[str, Sequence[Series]] = field(default_factory=dict)

    def __str__(self) -> str:
        own = [value for name, value in self.labels.items() if name in ("phase", "window")]
        return "-".join([self.alert, *own])
