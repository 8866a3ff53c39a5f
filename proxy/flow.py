"""Pausing a client's connection without losing sight of the client."""

import asyncio
import select

from uvicorn.protocols.http.flow_control import FlowControl

_LOOK_SECONDS = 0.1


class Flow(FlowControl):
    """uvicorn's flow control; notices a peer that leaves while nothing is read from it.

    Nobody reads the end of a connection while reading is paused: its bytes stand before it. The
    kernel has to be asked, which is done now and then, since pauses are rare.
    """

    # Not everywhere: what is left then are resets.
    _EVENTS = getattr(select, "POLLRDHUP", 0)

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._timer: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        super().pause_reading()
        if self._timer is None:
            self._arm()

    def resume_reading(self) -> None:
        super().resume_reading()
        self.stop()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), self._EVENTS)
        if poll.poll(0):
            self.stop()
            self._transport.abort()
        else:
            self._arm()
