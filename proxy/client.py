"""One request of a client and the answer that it gets, free of ASGI.

ASGI would lower-case header names, lose the raw target, wake a task for each thing, end a broken
answer cleanly for HTTP/1.0 clients, and has no way to learn that a client left but a second task
that waits for it.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.errors import Failure
from proxy.headers import Fields, Pair
from proxy.notices import place, say

if TYPE_CHECKING:
    from proxy.listener import ClientProtocol

Application = Callable[["Client"], Awaitable[None]]

# Bytes of a request body that may wait for somebody to take them before reading pauses.
_BUFFERED_BYTES = 64 << 10
# Smaller pieces of it are held as one: an object for each would take many times its bytes.
_SMALL_BYTES = 1 << 10
# Up to here copying a chunk into its framing is cheaper than a write of several parts.
_COPY_BYTES = 16 << 10
_CUT_SECONDS = 5.0
# Not every server says that a body may come (RFC 9110, 10.1.1); clients wait for about as long.
_CONTINUE_SECONDS = 1.0


class Client:
    """One request of a client and the answer that it gets.

    Attributes:
        target: the request target as it came, path and query.
        headers: pairs with their order, case and repetitions.
        fields: the same by name.
        arrived: when the last byte of the body had arrived, seconds of the clock; 0 before.
        gone: the client closed the connection before the answer was complete.
        status: of the answer; 0 until it has begun.
        offer: the other protocols that the upstream may take up; empty for none.
        refused: what the listener answered itself, in the middle of the request.
        stuck: why the connection was cut, if the client took nothing.
    """

    stuck: str | None = None

    def __init__(
        self,
        protocol: "ClientProtocol",
        headers: list[Pair],
        fields: Fields,
        keep_alive: bool,
        expects: bool,
    ) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._flow = protocol.flow
        self._expects = expects
        self.method: str = protocol.parser.get_method().decode("ascii")
        self.target: bytes = protocol.url
        self.headers = headers
        self.fields = fields
        self.http10 = protocol.parser.get_http_version() == "1.0"
        self.arrived = 0.0
        self.gone = False
        self.status = 0
        self.offer = b""
        self.refused: Failure | None = None
        self.full: Callable[[], None] | None = None
        self.free: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None

        # Names that uvicorn's protocol uses.
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False

        self._timer: asyncio.TimerHandle | None = None
        self._deferred = False  # whoever answers says whether the body shall come
        self._pieces: list[bytes | bytearray] = []
        self._buffered = 0
        self._reader: asyncio.Future[None] | None = None
        self._start = b""  # a head that waits for the first bytes of the body
        self._chunked = False
        self._until_close = False

    async def run_asgi(self, app: Application) -> None:
        """Have it served, whatever comes."""
        try:
            await app(self)
        except asyncio.CancelledError:
            if not self.gone:
                raise
        except Exception as mistake:
            say(f"{place(mistake)}, please report")
        finally:
            if not self.response_complete and not self.gone:
                self.cut()

    # --- the request ----------------------------------------------------------------------------

    async def collect(self, limit: int) -> bool:
        """Wait for the whole body, up to `limit` bytes; True if that is all of it.

        What has come is given by `body` or `stream` afterwards.
        """
        while not self.arrived and self._buffered <= limit:
            await self._more()
        return bool(self.arrived) and self._buffered <= limit

    def body(self) -> bytes:
        """All that has come and was not taken yet."""
        self._buffered = 0
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)  # that of one is itself

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
        if self.gone:
            raise asyncio.CancelledError
        if not self._deferred:
            self._proceed()
        self._flow.resume_reading()
        self._reader = asyncio.get_running_loop().create_future()
        self._arm()
        try:
            await self._reader
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _arm(self) -> None:
        loop, patience = asyncio.get_running_loop(), self._protocol.patience
        if self._expects:
            self._timer = loop.call_later(_CONTINUE_SECONDS, self._unsaid)
        elif patience is not None:
            self._timer = loop.call_later(patience, self._late)

    def _proceed(self) -> None:
        """Have the client send its body."""
        if self._expects and not self.gone:
            self._expects = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _unsaid(self) -> None:
        self._proceed()  # if the upstream has not
        self._arm()

    def _late(self) -> None:
        if not self.status and not self.gone:  # who is answered may well take its time
            self._protocol.body_is_late()

    def defer(self) -> bool:
        """Leave it to the upstream to say `100 Continue`; True if the client waits for that."""
        self._deferred = True
        return self._expects

    def take(self, data: bytes) -> None:
        """A piece of the body has come."""
        pieces = self._pieces
        if not pieces or len(data) >= _SMALL_BYTES:
            pieces.append(data)
        elif isinstance(last := pieces[-1], bytearray):
            last += data
        else:
            pieces.append(bytearray(data))
        self._buffered += len(data)
        if self._buffered > _BUFFERED_BYTES:
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

    def inform(self, status: int, reason: bytes, headers: list[Pair]) -> None:
        """Send an interim answer, if the client can have use for it."""
        if self.http10 or self.gone or self.status:
            return
        if status == 100:
            self._proceed()  # unless it did not ask, or was told
            return
        self._transport.write(head(status, reason, headers))

    def switch(self, reason: bytes, headers: list[Pair]) -> asyncio.Transport:
        """Another protocol begins: the transport is the caller's from now on."""
        self.status = 101
        self._transport.write(head(101, reason, headers))
        self._flow.resume_reading()
        return self._transport

    @property
    def send_limit(self) -> float | None:
        """Seconds in which the client has to take some of what waits for it; None for no limit."""
        return self._protocol.send_limit

    def lost(self, problem: Exception | None) -> None:
        """The connection that spoke another protocol is gone."""
        self.response_complete = True
        self._protocol.connection_lost(problem)

    def start(self, status: int, reason: bytes, headers: list[Pair], more: bool = False) -> None:
        """Send the head of the answer; with `more` it goes with the `write` that comes at once."""
        if self.gone:
            return
        self.status = status
        self._expects = False
        framing: list[Pair] = []
        sized = any(len(name) == 14 and name.lower() == b"content-length" for name, _ in headers)
        if not sized and self.method != "HEAD" and status not in (204, 304):
            if self.http10:
                self._until_close, self.keep_alive = True, False
            else:
                self._chunked = True
                framing.append((b"Transfer-Encoding", b"chunked"))
        if not self.arrived:
            self.keep_alive = False  # the rest of the request's body will not be read
        if not self.keep_alive:
            framing.append((b"Connection", b"close"))
        begun = head(status, reason, [*headers, *framing])
        if more:
            self._start = begun
        else:
            self._transport.write(begun)

    @property
    def takes_framed(self) -> Callable[[bytes], None] | None:
        """Takes bytes of the body in HTTP's chunked framing; None where it is framed otherwise."""
        return self._transport.write if self._chunked else None

    def write(self, data: bytes, framed: bytes | None = None) -> None:
        """Send bytes of the body, now. Never waits: see `on_full`.

        Args:
            framed: the same bytes as one chunk of HTTP's chunked framing, if they are at hand.
        """
        if self.gone or not data:
            return
        if self._start:
            begun, self._start = self._start, b""
            chunk = b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data
            self._transport.write(begun + chunk)
        elif not self._chunked:
            self._transport.write(data)
        elif framed is not None:
            self._transport.write(framed)
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
        if not self.arrived:
            self._protocol.linger()
            return
        if not self.keep_alive:
            self._protocol.close()
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
            if self._transport.get_extra_info("ssl_object") is not None:
                self._transport.abort()  # in order it would say goodbye, as behind a whole answer
                return
        self._transport.close()  # after what is written; a client that takes nothing shall not
        asyncio.get_running_loop().call_later(_CUT_SECONDS, self._transport.abort)  # hold it open

    def leave(self) -> None:
        """The connection is closed."""
        if not self.response_complete:
            self.gone = self.disconnected = True
            if self.task is not None:  # else it has not begun, and finds that out itself
                self.task.cancel()


def head(status: int, reason: bytes, headers: list[Pair]) -> bytes:
    """The head of an answer; an empty `reason` is the usual one."""
    line = b"HTTP/1.1 %d %b\r\n" % (status, reason)
    lines = [line if reason else STATUS_LINE.get(status, line)]
    lines += [b"%b: %b\r\n" % pair for pair in headers]
    lines.append(b"\r\n")
    return b"".join(lines)
