"""The load generator: streams and small requests, at the level of asyncio's protocols.

It shares a process with the runner; what it costs itself is in the results.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import httptools

from .quiet import Watch
from .traffic import (
    CHAT,
    CLOCK,
    DIGITS,
    DONE,
    MODEL,
    PREFILL_SECONDS,
    RECEIVED,
    WRITTEN,
    chat_body,
    post,
)

GRACE_SECONDS = 10.0  # for streams that are late; after it they are lost
_SETTLE_SECONDS = 0.5
_EVENT_END = b"\n\n"

Probe = TypeVar("Probe")


@dataclass
class Stream:
    """One stream as its client saw it; times in nanoseconds of the host's monotonic clock."""

    request_id: str
    expected: int  # chunks
    sent: int = 0
    first: int = 0  # arrival of the first chunk
    received: int = 0  # when the upstream had the request
    written_first: int = 0  # when the upstream wrote the first chunk
    written_last: int = 0
    chunks: int = 0
    status: int = 0
    done: bool = False
    complete: bool = False

    @property
    def lost(self) -> bool:
        """Whether anything of it is missing."""
        whole = self.complete and self.done and self.chunks == self.expected
        return not whole or self.status != 200

    @property
    def added(self) -> int:
        """TTFT without what the upstream itself took."""
        return (self.first - self.sent) - (self.written_first - self.received)

    @property
    def ttft(self) -> float:
        """From the request's bytes to the writing of the first chunk, seconds."""
        return (self.written_first - self.sent) / 1e9

    @property
    def decode_rate(self) -> float:
        """Chunks per second as written, from the first to the last."""
        return (self.chunks - 1) * 1e9 / (self.written_last - self.written_first)


class Gauge:
    """How long chunks were under way, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.chunks = 0  # of all streams, since ever
        self.delays = array("q")


class StreamClient(asyncio.Protocol):
    """Sends one request on a connection of its own and reads the stream."""

    def __init__(self, stream: Stream, request: bytes, gauge: Gauge, over: Callable[[], None]):
        self._stream = stream
        self._request = request
        self._gauge = gauge
        self._over = over
        self._parser = httptools.HttpResponseParser(self)
        self._tail = b""
        self._at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._stream.sent = CLOCK()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._at = CLOCK()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_headers_complete(self) -> None:
        self._stream.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if self._tail or not data.endswith(_EVENT_END):
            data = self._tail + data
            cut = data.rfind(_EVENT_END) + len(_EVENT_END) if _EVENT_END in data else 0
            data, self._tail = data[:cut], data[cut:]
        end = 0
        while (at := data.find(WRITTEN, end)) >= 0:
            end = at + 2 + DIGITS
            self._chunk(int(data[at + 2 : end]), data, end)
        if data.endswith(DONE):
            self._stream.done = True

    def _chunk(self, written: int, data: bytes, end: int) -> None:
        stream, gauge = self._stream, self._gauge
        if not stream.chunks:
            stream.first, stream.written_first = self._at, written
            if data.startswith(RECEIVED, end):
                stream.received = int(data[end + 2 : end + 2 + DIGITS])
        stream.chunks += 1
        stream.written_last = written
        gauge.chunks += 1
        if gauge.on:
            gauge.delays.append(self._at - written)

    def on_message_complete(self) -> None:
        self._stream.complete = True
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over()


@dataclass(frozen=True)
class StreamLoad:
    """So many streams of so many chunks a second each.

    They start evenly over `ramp` seconds; what is measured is measured during `window` seconds
    in which all of them run.
    """

    streams: int
    rate: float
    window: float
    ramp: float
    in_step: bool = False

    @property
    def name(self) -> str:
        """Such as `100x40/s`."""
        return f"{self.streams}x{self.rate:g}/s" + (" in step" if self.in_step else "")

    @property
    def chunks(self) -> int:
        """Of each stream."""
        return round((self.ramp + _SETTLE_SECONDS + self.window) * self.rate) + 2


@dataclass
class StreamRun(Generic[Probe]):
    """What came of a load."""

    streams: list[Stream]
    delays: Sequence[int]  # nanoseconds, of the chunks in the window
    watch: Watch
    chunks: int  # in the window
    seconds: float  # of the window
    before: Probe  # what `probe` said at the window's two ends
    after: Probe

    @property
    def lost(self) -> int:
        """Streams of which anything is missing."""
        return sum(stream.lost for stream in self.streams)

    @property
    def begun(self) -> list[Stream]:
        """Those whose first chunk came."""
        return [stream for stream in self.streams if stream.first]

    @property
    def quiet(self) -> list[Stream]:
        """Of these, those that began while the host was quiet."""
        return [stream for stream in self.begun if self.watch.quiet(stream.sent, stream.first)]


async def run_streams(
    port: int, load: StreamLoad, probe: Callable[[], Probe], models: Sequence[str] = (MODEL,)
) -> StreamRun[Probe]:
    """Put a load on what listens on `port` of the loopback.

    Args:
        probe: called at the beginning and at the end of the window.
        models: asked for in turn.
    """
    loop = asyncio.get_running_loop()
    gauge = Gauge()
    run = f"bench-{CLOCK()}"
    bodies = [
        chat_body(chunks=load.chunks, interval=1 / load.rate, model=m, in_step=load.in_step)
        for m in models
    ]
    streams: list[Stream] = []
    watch = Watch()

    async def start(number: int) -> None:
        await asyncio.sleep(load.ramp * number / load.streams)
        stream = Stream(f"{run}-{number}", load.chunks)
        streams.append(stream)
        headers = {"X-Request-Id": stream.request_id}
        await fetch(port, stream, post(CHAT, bodies[number % len(bodies)], headers), gauge)

    ends = load.ramp + PREFILL_SECONDS + load.chunks / load.rate
    began = loop.time()
    watching = loop.create_task(watch.run())
    running = [loop.create_task(start(number)) for number in range(load.streams)]
    await asyncio.sleep(load.ramp + PREFILL_SECONDS + _SETTLE_SECONDS)
    before, chunks, since = probe(), gauge.chunks, loop.time()
    gauge.on = True
    await asyncio.sleep(load.window)
    gauge.on = False
    chunks, seconds, after = gauge.chunks - chunks, loop.time() - since, probe()
    _, late = await asyncio.wait(running, timeout=began + ends + GRACE_SECONDS - loop.time())
    for task in late:
        task.cancel()
    watching.cancel()
    await asyncio.gather(*running, watching, return_exceptions=True)
    return StreamRun(streams, gauge.delays, watch, chunks, seconds, before, after)


async def fetch(port: int, stream: Stream, request: bytes, gauge: Gauge) -> None:
    """One stream, to its end or until cancelled. A connection that fails leaves it lost."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    try:
        transport, _ = await loop.create_connection(
            lambda: StreamClient(stream, request, gauge, end), "127.0.0.1", port
        )
    except OSError:
        return
    try:
        await over
    finally:
        transport.abort()
