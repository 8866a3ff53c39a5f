"""When an alert fires, given when its condition held: Prometheus' `for` and `keep_firing_for`."""

from collections.abc import Iterable
from typing import NamedTuple

from .rules import Alert


class Episode(NamedTuple):
    """From the first evaluation at which it fired to the first at which it did not."""

    begin: float
    end: float


def episodes(alert: Alert, held: Iterable[float]) -> list[Episode]:
    """Episodes of firing; `held`: evaluations at which the condition held, seconds, rising."""
    found: list[Episode] = []
    since = last = float("-inf")
    for at in held:
        over = at + max(alert.group.interval, alert.keep)
        if found and found[-1].end >= at:
            found[-1] = Episode(found[-1].begin, over)
        elif at - last > alert.group.interval * 1.5:
            since = at
        if at - since >= alert.wait and (not found or found[-1].end < at):
            found.append(Episode(at, over))
        last = at
    return found
