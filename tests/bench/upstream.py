"""The scripted upstream: streams chunks at exact times, answers small requests, moves bytes.

Run as a process of its own (`python -m tests.bench.upstream PORT`), so that its processor time is
not the proxies'. Raw asyncio on uvloop: a chunk costs one timer, one format and one write.
"""

import asyncio
import gc
import math
import socket
import sys
from typing import Any, cast

import httptools
import orjson
import uvloop

from .traffic import CLOCK, MODELS, PREFILL_SECONDS, STREAM_HEAD, Script, json_answer, whole_answer

_BLOCK = bytes(256 << 10)
_HIGH_WATER = 1 << 20
_BACKLOG = 2048
_LISTED = [{"id": model, "object": "model"} for model in MODELS]
_MODELS = json_answer(orjson.dumps({"object": "list", "data": _LISTED}))
_NOT_FOUND = json_answer(b'{"error":{"message":"no such path"}}', b"404 Not Found")


class Stream:
    """One answer as a stream of chunks, `interval` seconds apart.

    Args:
        in_step: chunks are written at whole multiples of the interval, those of all streams at
            the same time, as an engine does that decodes its streams in one batch.
    """

    def __init__(self, transport: asyncio.Transport, asked: dict[str, Any], received: int) -> None:
        self._transport = transport
        self._script = Script(str(asked["model"]))
        self._total = self._left = max(2, int(asked["max_tokens"]))
        self._interval = asked.get("seed", 0) / 1e6
        self._in_step = asked.get("in_step") is True
        self._usage = (asked.get("stream_options") or {}).get("include_usage") is True
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._paused = self._due = False
        transport.write(STREAM_HEAD)
        self._next = self._loop.time() + PREFILL_SECONDS
        if self._in_step and self._interval:
            self._next = math.ceil(self._next / self._interval) * self._interval
        self._timer = self._loop.call_at(self._next, self._tick)

    def _tick(self) -> None:
        if self._paused:
            self._due = True
            return
        script, write = self._script, self._transport.write
        if self._left == self._total:
            write(script.role)
        if self._left > 1:
            write(script.content % (CLOCK(), self._received))
        else:
            write(script.finish % (CLOCK(), self._received))
            if self._usage:
                write(script.usage(self._total))
            write(script.done)
            return
        self._left -= 1
        self._next += self._interval
        self._timer = self._loop.call_at(self._next, self._tick)

    def pause(self) -> None:
        """The reader takes no more bytes."""
        self._paused = True

    def resume(self) -> None:
        """It does again."""
        self._paused = False
        if self._due:
            self._due = False
            self._tick()

    def stop(self) -> None:
        """The reader is gone."""
        self._timer.cancel()


class Blob:
    """`size` bytes, as fast as they are taken."""

    def __init__(self, transport: asyncio.Transport, size: int) -> None:
        self._transport = transport
        self._left = size
        self._paused = False
        transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
            b"content-length: %d\r\n\r\n" % size
        )
        self.resume()

    def pause(self) -> None:
        """The reader takes no more bytes."""
        self._paused = True

    def resume(self) -> None:
        """It does again."""
        self._paused = False
        while self._left and not self._paused:
            block = _BLOCK[: min(self._left, len(_BLOCK))]
            self._left -= len(block)
            self._transport.write(block)

    def stop(self) -> None:
        """The reader is gone."""
        self._left = 0


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._answer: Stream | Blob | None = None
        self._target = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        self._at = CLOCK()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def pause_writing(self) -> None:
        if self._answer is not None:
            self._answer.pause()

    def resume_writing(self) -> None:
        if self._answer is not None:
            self._answer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None:
            self._answer.stop()

    # --- httptools' side ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target = b""
        self._pieces.clear()
        self._size = 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= len(_BLOCK):  # of a large body only the size is wanted
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        target = self._target.partition(b"?")[0]
        if target.endswith(b"/chat/completions"):
            asked = orjson.loads(b"".join(self._pieces))
            if asked.get("stream") is True:
                self._answer = Stream(self._transport, asked, self._at)
            else:
                self._transport.write(whole_answer(str(asked["model"])))
        elif target.startswith(b"/blob/"):
            self._answer = Blob(self._transport, int(target[6:]))
        elif target == b"/sink":
            self._transport.write(json_answer(b'{"bytes":%d}' % self._size))
        elif target in (b"/v1/models", b"/health"):
            self._transport.write(_MODELS)
        else:
            self._transport.write(_NOT_FOUND)


async def serve(port: int) -> None:
    """Serve on 127.0.0.1 until killed."""
    loop = asyncio.get_running_loop()
    # An address to be looked up would start threads, and with those the kernel pauses a process
    # for milliseconds when its table of descriptors grows.
    listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    server = await loop.create_server(Server, sock=listener, backlog=_BACKLOG)
    gc.freeze()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
