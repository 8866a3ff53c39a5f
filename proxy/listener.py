"""The client's side: uvicorn's HTTP protocol with the few things that ASGI does not tell.

uvicorn accepts, parses, keeps connections and shuts down; the application it calls gets a
`Client` instead of ASGI's scope and callables. ASGI would lower-case header names, lose the raw
target, wake a task for each thing, end a broken answer cleanly for HTTP/1.0 clients, and has no
way to learn that a client left but a second task that waits for it.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from proxy.headers import Pair

Application = Callable[["Client"], Awaitable[None]]

# Bytes of a request body that may wait for somebody to take them before reading pauses.
_BUFFERED_BYTES = 64 << 10
# Up to here copying a chunk into its framing is cheaper than a write of several parts.
_COPY_BYTES = 16 << 10
_CUT_SECONDS = 5.0


class Left(Exception):
    """The client is gone."""


class Client:
    """One request of a client and the answer that it gets.

    Attributes:
        target: the request target as it came, path and query.
        headers: pairs with their order, case and repetitions.
        arrived: when the last byte of the body had arrived, seconds of the clock; 0 before.
        gone: the client closed the connection before the answer was complete.
    """

    def __init__(self, protocol: "ClientProtocol", keep_alive: bool, expects: bool) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._flow: FlowControl = protocol.flow
        self._expects = expects
        self.method: str = protocol.parser.get_method().decode("ascii")
        self.target: bytes = protocol.url
        self.headers: list[Pair] = protocol.pairs
        self.http10 = protocol.parser.get_http_version() == "1.0"
        self.arrived = 0.0
        self.gone = False
        self.status = 0
        self.full: Callable[[], None] | None = None
        self.free: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None

        # Names that uvicorn's protocol uses.
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False

        self._pieces: list[bytes] = []
        self._buffered = 0
        self._holding = False
        self._reader: asyncio.Future[None] | None = None
        self._chunked = False
        self._until_close = False

    async def run_asgi(self, app: Application) -> None:
        """What uvicorn starts a task with."""
        try:
            await app(self)
        except asyncio.CancelledError:
            if not self.gone:
                self.cut()
                raise
        except Exception as mistake:  # no traceback: it may hold somebody's text
            print(f"tokometer: {type(mistake).__name__} in an exchange", file=sys.stderr)
        if not self.response_complete and not self.gone:
            self.cut()

    # --- the request ----------------------------------------------------------------------------

    async def collect(self, limit: int) -> bool:
        """Wait for the whole body, up to `limit` bytes; True if that is all of it.

        What has come is given by `body` or `stream` afterwards.
        """
        self._holding = True
        while not self.arrived and self._buffered <= limit:
            await self._more()
        self._holding = False
        return bool(self.arrived) and self._buffered <= limit

    def body(self) -> bytes:
        """All that has come and was not taken yet."""
        self._buffered = 0
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream(self) -> AsyncIterator[bytes]:
        """The body, piece by piece as it comes."""
        while True:
            if self._pieces:
                yield self.body()
            elif self.arrived:
                return
            else:
                await self._more()

    async def _more(self) -> None:
        if self._expects:
            self._expects = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._flow.resume_reading()
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def take(self, data: bytes) -> None:
        """A piece of the body has come."""
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered > _BUFFERED_BYTES and not self._holding:
            self._flow.pause_reading()
        self._wake()

    def complete(self, at: float) -> None:
        """The body is complete."""
        self.arrived = at
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # --- the answer -----------------------------------------------------------------------------

    def start(self, status: int, reason: bytes, headers: list[Pair]) -> None:
        """Send the head of the answer."""
        self.status = status
        self._expects = False
        lines = [_status_line(status, reason)]
        sized = closes = False
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            sized |= len(name) == 14 and name.lower() == b"content-length"
            closes |= len(name) == 10 and name.lower() == b"connection"
        if not sized and self.method != "HEAD" and status not in (204, 304):
            if self.http10:
                self._until_close, self.keep_alive = True, False
            else:
                self._chunked = True
                lines.append(b"Transfer-Encoding: chunked\r\n")
        if not self.arrived:
            self.keep_alive = False  # the rest of the request's body will not be read
        if not self.keep_alive and not closes:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        self._transport.write(b"".join(lines))

    def write(self, data: bytes) -> None:
        """Send bytes of the body, now. Never waits: see `on_full`."""
        if self.gone or not data:
            return
        if not self._chunked:
            self._transport.write(data)
        elif len(data) <= _COPY_BYTES:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._transport.writelines((b"%x\r\n" % len(data), data, b"\r\n"))

    def on_full(self, full: Callable[[], None] | None, free: Callable[[], None] | None) -> None:
        """Whom to tell when the socket takes no more bytes, and when it does again."""
        self.full, self.free = full, free
        if full is not None and self._flow.write_paused:
            full()

    def end(self) -> None:
        """The answer is complete."""
        if self.gone:
            return
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")
        self.response_complete = True
        if not self.keep_alive:
            self._transport.close()
        self._protocol.on_response_complete()

    def cut(self) -> None:
        """Break the connection off, so that no client takes the answer for complete."""
        if self._transport.is_closing():
            return
        if self._until_close:
            # Only a reset tells an unframed answer that broke off from one that ended.
            linger = struct.pack("ii", 1, 0)
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.close()  # after what is written; a client that takes nothing shall not
        asyncio.get_running_loop().call_later(_CUT_SECONDS, self._transport.abort)  # hold it open

    def leave(self) -> None:
        """The connection is closed."""
        if not self.response_complete:
            self.gone = self.disconnected = True
            if self.task is not None:
                self.task.cancel()


def _status_line(status: int, reason: bytes) -> bytes:
    if reason:
        return b"HTTP/1.1 %d %b\r\n" % (status, reason)
    return STATUS_LINE.get(status) or b"HTTP/1.1 %d \r\n" % status


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, calling the application with a `Client`."""

    cycle: Any  # the Client whose request is being read
    clock: Callable[[], float]

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        # The application as given: config.load() wraps it for ASGI.
        self.app = config.app
        self.pairs: list[Pair] = []
        self._at = 0.0
        self._serving: Client | None = None  # the one that is being answered

    def data_received(self, data: bytes) -> None:
        self._at = self.clock()
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # answered without the upgrade; what follows is not HTTP

    def on_message_begin(self) -> None:
        self.url = b""
        self.pairs = []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))
        if len(name) == 6 and name.lower() == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        waiting = self.cycle is not None and not self.cycle.response_complete
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self.cycle = client = Client(self, keep_alive, self.expect_100_continue)
        if waiting:  # a pipelined request
            self.flow.pause_reading()
            self.pipeline.appendleft((client, self.app))  # type: ignore[arg-type]
        else:
            self._start_asgi_task(client, self.app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._serving = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        cycle.task = task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self.cycle.take(body)

    def on_message_complete(self) -> None:
        self.cycle.complete(self._at)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.flow.resume_writing()
        self.pipeline.clear()
        if self._serving is not None:
            self._serving.leave()
        self.parser = None  # type: ignore[assignment]

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        if self._serving is not None and self._serving.full is not None:
            self._serving.full()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        if self._serving is not None and self._serving.free is not None:
            self._serving.free()
