"""The body of an answer, with the arrival time of every read.

`Answer.pour` hands reads on from the socket's own callback, without a task switch.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

import httpx

from proxy.headers import Pair

# Takes bytes of a body, their arrival, and the same bytes in HTTP's chunked framing where they
# came as just one such chunk.
Sink = Callable[[bytes, float, bytes | None], None]

# Bytes of an answer that may wait for somebody to take them before reading pauses.
_EARLY_BYTES = 64 << 10


class Shortcut(NamedTuple):
    """A quicker way for reads of the connection (see `shortcut`).

    `take` gets a read as it comes off the socket, and has `Answer.received` take what it cannot.
    `last` tells the arrival of the last one.
    """

    take: Callable[[bytes], None]
    last: Callable[[], float]


# Takes status, reason and header pairs of an interim answer.
Inform = Callable[[int, bytes, list[Pair]], None]


class Source(Protocol):
    """What an answer comes over (`connection.Connection`)."""

    keep: bool

    def received(self, data: bytes, at: float) -> None:
        """Take a read, framing and all, and its arrival."""
        ...

    def shorten(self, way: Shortcut | None) -> None:
        """See `Answer.shorten`."""
        ...

    def pause_reading(self) -> None:
        """Take no bytes from the socket."""
        ...

    def resume_reading(self) -> None:
        """Take bytes again."""
        ...


def _let_go(data: bytes, at: float, framed: bytes | None) -> None:
    """Nobody wants it any more."""


class Answer(httpx.AsyncByteStream):
    """The body of an answer, with the arrival time (seconds of the clock) of every read.

    Args:
        inform: told of interim answers.
        switches: the other protocols that were offered, one of which a 101 begins.
    """

    def __init__(
        self,
        connection: Source,
        release: Callable[[], None],
        inform: Inform | None = None,
        switches: bytes = b"",
    ) -> None:
        self.inform = inform
        self.switches = switches
        self._connection = connection
        self._release = release
        self._early: list[tuple[bytes, float]] = []
        self._early_size = 0
        self._held = False
        self.take: Sink = self._keep  # bytes of the body have arrived
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._upload: asyncio.Task[None] | None = None
        self.complete = False
        self.by_close = False  # what ended the body was the end of the connection
        self.arrived = 0.0  # of the last read so far

    @property
    def begun(self) -> bool:
        """Bytes of the body have come already."""
        return bool(self._early)

    async def pour(self, sink: Sink) -> None:
        """Hand each read with its arrival time to `sink`, from the socket's own callback.

        Returns at the end of the body. Raises: httpx.TransportError when it breaks off.
        """
        for data, at in self._early:
            sink(data, at, None)
        self._early.clear()
        self.take = sink
        if not self._held:
            self._connection.resume_reading()
        if not self.complete and self._failure is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is not None:
            raise self._failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """httpx's interface: the same bytes without their times."""
        ready: deque[bytes] = deque()

        def take(data: bytes, at: float, framed: bytes | None) -> None:
            ready.append(data)
            self.pause()
            self._wake()

        for data, at in self._early:
            take(data, at, None)
        self._early.clear()
        self.take = take
        while True:
            while ready:
                yield ready.popleft()
            if self._failure is not None:
                raise self._failure
            if self.complete:
                return
            self.resume()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    @property
    def received(self) -> Callable[[bytes, float], None]:
        """Takes a whole read of the connection, framing and all, that came at that time."""
        return self._connection.received

    def shorten(self, way: Shortcut | None) -> None:
        """Whenever the next read may be one whole chunk, it goes `way`; None: the long way."""
        self._connection.shorten(way)

    def pause(self) -> None:
        """Stop reading from the upstream until `resume`."""
        self._held = True
        self._connection.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        self._held = False
        self._connection.resume_reading()

    async def aclose(self) -> None:
        """Give the connection back, or cut it when the answer is not complete."""
        self.close()

    def close(self) -> None:
        """The same, without waiting for anything."""
        if self._upload is not None and self.uploading:
            self._upload.cancel()
            self._connection.keep = False
        # Who takes knows this answer, and so does a failure: cycles wait for the garbage collector.
        self.take, self._failure = _let_go, None
        self._release()

    # --- called by the connection ---------------------------------------------------------------

    def _keep(self, data: bytes, at: float, framed: bytes | None) -> None:
        """Until somebody asks for them."""
        self._early.append((data, at))
        self._early_size += len(data)
        if self._early_size > _EARLY_BYTES:
            self._connection.pause_reading()

    def finish(self, at: float, by_close: bool = False) -> None:
        """The body is complete."""
        self.by_close = by_close
        self.arrived = at
        self.complete = True
        self._wake()

    def fail(self, problem: Exception) -> None:
        """The body will not be complete."""
        if not self.complete and self._failure is None:
            self._failure = problem
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def owns(self, upload: asyncio.Task[None]) -> None:
        """The task that still sends the request's body ends with the answer."""
        self._upload = upload

    @property
    def uploading(self) -> bool:
        """The request's body is still being sent."""
        return self._upload is not None and not self._upload.done()
