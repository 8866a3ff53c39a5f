"""`for` and `keep_firing_for` as Prometheus has them."""

from collections.abc import Sequence

import pytest

from .firing import episodes
from .rules import Alert, Group, Rules

_EVERY = Group("g", 60)


def fired(held: Sequence[int], wait: float = 0, keep: float = 0) -> list[tuple[float, float]]:
    """Episodes in minutes, of conditions held at these minutes."""
    alert = Alert(_EVERY, "A", "vector(1)", wait * 60, keep * 60)
    return [(one.begin / 60, one.end / 60) for one in episodes(alert, [at * 60 for at in held])]


@pytest.mark.parametrize(
    ("held", "wait", "expected"),
    [
        ([], 0, []),
        ([3], 0, [(3, 4)]),
        ([3, 4, 5], 0, [(3, 6)]),
        ([3, 4, 5], 2, [(5, 6)]),
        ([3, 4, 6, 7, 8], 2, [(8, 9)]),  # minute 5 starts the wait again
        ([3, 4, 5, 6, 9, 10, 11, 12], 2, [(5, 7), (11, 13)]),
        ([3, 4], 2, []),
    ],
)
def test_an_alert_fires_once_its_condition_has_held_for_long_enough(
    held: list[int], wait: float, expected: list[tuple[float, float]]
) -> None:
    assert fired(held, wait) == expected


def test_an_alert_that_is_kept_does_not_start_again() -> None:
    assert fired([3, 5, 9], keep=3) == [(3, 8), (9, 12)]


_FILE = """
groups:
- name: first
  rules:
  - {record: "a:b:c", expr: "sum(x)"}
  - {record: "a:b:d", expr: "a:b:c * 2"}
  - {record: "a:b:unused", expr: "a:b:c"}
- name: second
  interval: 5m
  rules:
  - {alert: Wanted, expr: "a:b:d > 1 and a:b:c > 1", for: 1h30m}
  - {alert: Other, expr: "a:b:unused > 1"}
"""


def test_rules_are_recorded_after_what_they_need() -> None:
    rules = Rules([_FILE], {"Wanted"})
    assert [[one.name for one in level] for level in rules.levels()] == [
        ["a:b:c"],
        ["a:b:d"],
        ["condition:Wanted"],
    ]
    assert [alert.wait for alert in rules.alerts] == [5400]
