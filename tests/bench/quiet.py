"""When the hypervisor left the machine its processors.

On a shared host a virtual processor stands still now and then, for milliseconds at a time, whatever
would have run on it. The guest's kernel is told how long (stolen time), and what fell into such a
moment says nothing of a proxy.
"""

import asyncio
from bisect import bisect_left

from . import accounting
from .traffic import CLOCK

_LOOK_SECONDS = 0.02
# Stolen time is told late, and what waited meanwhile takes a while to be gone.
_AROUND_NS = 40_000_000


class Watch:
    """Looks while `run` runs. Times are nanoseconds of the host's monotonic clock."""

    def __init__(self) -> None:
        self._looked_at = CLOCK()
        self._stolen = accounting.stolen_seconds()
        self._begins: list[int] = []  # of the moments in which time was stolen; none overlap
        self._ends: list[int] = []

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look(CLOCK(), accounting.stolen_seconds())

    def look(self, at: int, stolen: float) -> None:
        """So much was stolen by then."""
        if stolen != self._stolen:
            begin, end = self._looked_at - _AROUND_NS, at + _AROUND_NS
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = end
            else:
                self._begins.append(begin)
                self._ends.append(end)
        self._looked_at, self._stolen = at, stolen

    def quiet(self, begin: int, end: int) -> bool:
        """Whether nothing was stolen around this time."""
        after = bisect_left(self._ends, begin)
        return after == len(self._ends) or self._begins[after] > end
