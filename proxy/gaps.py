"""The reads of a stream that brought output: the gaps between them, stalls, the client's share."""

from collections.abc import Sequence
from operator import sub


class Gaps:
    """Output-bearing reads, in order. Times and durations in seconds.

    Attributes:
        reads: how many there were.
        last_at: arrival of the last one; 0 before the first.
        new: gaps since `take` was called.
        longest: gap so far.
        stalls, stalled: gaps over the threshold, and their sum.
        wait: time in which the client took no bytes, which is in no gap.
    """

    __slots__ = (
        "_stall",
        "_wait_at_first",
        "_wait_at_last",
        "last_at",
        "longest",
        "new",
        "reads",
        "stalled",
        "stalls",
        "wait",
    )

    def __init__(self, stall_seconds: float) -> None:
        self._stall = stall_seconds
        self.reads = 0
        self.last_at = 0.0
        self.new: list[float] = []
        self.longest = 0.0
        self.stalls = 0
        self.stalled = 0.0
        self.wait = 0.0
        self._wait_at_first = self._wait_at_last = 0.0

    def read(self, at: float) -> None:
        """A read with output has come."""
        if not self.reads:
            self._wait_at_first = self.wait
        elif at == self.last_at:
            return  # the answer's end completed an event of the same read
        else:
            self._gap(max(0.0, at - self.last_at - (self.wait - self._wait_at_last)))
        self.reads += 1
        self.last_at = at
        self._wait_at_last = self.wait

    def _gap(self, gap: float) -> None:
        self.new.append(gap)
        if gap > self.longest:
            self.longest = gap
        if gap > self._stall:
            self.stalls += 1
            self.stalled += gap

    def several(self, arrivals: Sequence[float]) -> None:
        """The same for at least one read, in one go where there is nothing special about them."""
        gaps = list(map(sub, arrivals, [self.last_at, *arrivals]))
        plain = self.reads and self.wait == self._wait_at_last
        if plain and min(gaps) > 0 and max(gaps) <= self._stall:
            self.reads += len(gaps)
            self.new += gaps
            self.longest = max(self.longest, *gaps)
            self.last_at = arrivals[-1]
        else:
            for at in arrivals:
                self.read(at)

    def take(self) -> list[float]:
        """The gaps since the last call."""
        new, self.new = self.new, []
        return new

    @property
    def waited(self) -> float:
        """Of the time from the first to the last read, what the client did not take bytes."""
        return self._wait_at_last - self._wait_at_first
