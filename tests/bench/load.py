"""The load generator: streams and small requests, at the level of asyncio's protocols.

It shares a process with the runner; what it costs itself is in the results.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import httptools

from .traffic import CHAT, CLOCK, DIGITS, DONE, MODEL, PREFILL_SECONDS, RECEIVED, WRITTEN, chat_body, post

GRACE_SECONDS = 10.0  # for streams that are late; after it they are lost
_SETTLE_SECONDS = 0.5

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
        if self._tail:
            data = self._tail + data
        end = self._take(data)
        mark = data.rfind(b"\n", end)
        self._tail = data[max(end, mark) :] if len(data) - end > 64 else data[end:]
        if DONE in self._tail:
            self._stream.done = True

    def _take(self, data: bytes) -> int:
        """Count the chunks in `data`; the position behind the last one's time."""
        end = 0
        while (at := data.find(WRITTEN, end)) >= 0 and at + 2 + DIGITS <= len(data):
            end = at + 2 + DIGITS
            self._chunk(int(data[at + 2 : end]), data, end)
        return end

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
