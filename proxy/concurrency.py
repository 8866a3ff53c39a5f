"""How many streams were in flight, at any moment of the recent past."""

from array import array
from bisect import bisect_right

# Change points that are kept: three numbers each, so some 100 kB.
MAX_POINTS = 4096


class Concurrency:
    """The number of streams in flight as a step function of time, and its integral.

    Changes come with their own times, mostly in order. Memory is bounded (see `trim`); where that
    took points away, the mean over the time between the points that are left is still right.
    """

    __slots__ = ("_areas", "_begin", "_levels", "_times")

    def __init__(self) -> None:
        self._begin = float("-inf")  # before it nothing is known any more
        self._times = array("d")  # rising
        self._levels = array("d")  # from this point to the next
        self._areas = array("d")  # stream-seconds up to this point

    @property
    def last(self) -> float:
        """When it last changed, seconds; -inf if it never did."""
        return self._times[-1] if self._times else float("-inf")

    def change(self, at: float, by: int) -> None:
        """`by` streams more (or less) from `at` on; O(1) if nothing later is known."""
        at = max(at, self._begin)
        times, levels, areas = self._times, self._levels, self._areas
        area, level = self._area(at), self.level(at)
        place = len(times)
        while place and times[place - 1] > at:
            place -= 1
            levels[place] += by
            areas[place] += by * (times[place] - at)
        times.insert(place, at)
        levels.insert(place, level + by)
        areas.insert(place, area)

    def level(self, at: float) -> float:
        """Streams in flight at `at`, what changed at that moment included."""
        place = bisect_right(self._times, max(at, self._begin))
        return self._levels[place - 1] if place else 0.0

    def mean(self, begin: float, end: float) -> float:
        """Time-weighted mean from `begin` to `end`; the level at `begin` if that is no time."""
        if end <= begin:
            return self.level(begin)
        return (self._area(end) - self._area(begin)) / (end - begin)

    def _area(self, at: float) -> float:
        place = bisect_right(self._times, at) - 1
        if place < 0:
            return self._areas[0] if self._areas else 0.0
        return self._areas[place] + self._levels[place] * (at - self._times[place])

    def trim(self, oldest: float) -> None:
        """Make room if there is need; nobody asks for times before `oldest` any more.

        Points from before that go first; if that is not enough, every second one of the older half.
        """
        if len(self._times) <= MAX_POINTS:
            return
        passed = max(0, bisect_right(self._times, oldest) - 1)
        self._delete(slice(passed))
        self._begin = self._times[0]
        if len(self._times) > MAX_POINTS * 3 // 4:
            self._thin(len(self._times) // 4 * 2)

    def _thin(self, count: int) -> None:
        """Take every second of the first `count` points (an even number) away."""
        self._delete(slice(1, count, 2))
        times, areas = self._times, self._areas
        for place in range(count // 2):
            span = times[place + 1] - times[place]
            if span > 0:
                self._levels[place] = (areas[place + 1] - areas[place]) / span

    def _delete(self, which: slice) -> None:
        for column in (self._times, self._levels, self._areas):
            del column[which]
