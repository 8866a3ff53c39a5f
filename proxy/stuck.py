"""A limit on how long a peer may take nothing while bytes wait for it."""

import asyncio
from collections.abc import Callable


class Stuck:
    """Watches a connection whose socket is full. Who takes slowly is not stuck.

    Args:
        clock: monotonic seconds.
        limit: seconds in which some of what waits must have been taken; looked at once in so long.
        stuck: called when nothing was.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        clock: Callable[[], float],
        limit: float,
        stuck: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._limit = limit
        self._stuck = stuck
        self._since = 0.0
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Bytes wait."""
        if self._timer is None:
            self._since = self._clock()
            self._waiting = self._transport.get_write_buffer_size()
            self._arm(self._limit)

    def end(self) -> None:
        """No more, or the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        before, self._waiting = self._waiting, self._transport.get_write_buffer_size()
        now = self._clock()
        if self._waiting < before:
            self._since = now
        left = self._since + self._limit - now
        if left > 0:
            self._arm(left)
        else:
            self._timer = None
            self._stuck()
