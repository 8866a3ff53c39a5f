"""One connection to an inference server, on httptools.

The arrival time of every read is taken where its bytes come off the socket. Errors of sockets and
of the protocol become httpx's here and in `upstream`, nowhere else.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

import httptools
import httpx

from proxy.answer import Answer, Shortcut
from proxy.early import Early
from proxy.incoming import Incoming
from proxy.probes import probe

Clock = Callable[[], float]
# A kept connection that is lost later than this after a request had taken it: a crash that the
# request may have caused is not to be repeated.
_STALE_SECONDS = 1.0
# How servers write the sizes of chunks that a token stream has, and how long such a chunk is.
SIZES = {b"%x\r\n" % size: size + len(b"%x\r\n\r\n" % size) for size in range(1, 1 << 12)}
_LONGEST = max(map(len, SIZES))  # of the line with the size

# So many bytes without one of a body among them are no head, no interim answers, no trailers.
_MAX_BARREN_BYTES = 256 << 10
# A request with a body up to this goes out in one write with its head.
_ONE_WRITE_BYTES = 64 << 10


class StaleConnection(Exception):
    """A kept connection turned out to be closed before it gave a byte of the answer."""


class Connection(asyncio.Protocol):
    """One connection to an upstream; carries one exchange at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._early: Early | None = None  # until the loop has the socket
        self._problem: OSError | None = None  # with what was sent before that
        self.made_at = clock()
        self.incoming = Incoming(self._begun)
        self._transport: asyncio.Transport | None = None
        self._shortcut: Shortcut | None = None
        self._shortened = False
        # uvloop keeps what `data_received` is when the connection is made. A partial of nothing
        # costs no call of its own and can be given another function; told by `set_protocol`,
        # uvloop would stop reading and begin again, with two system calls a time.
        self._take: partial[None] | None = partial(self._read)
        self.data_received = self._take  # type: ignore[method-assign]
        self._paused = False
        self._active = 0.0  # when something came or went
        self._writable: asyncio.Future[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.lost = False
        self.reused = False
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        """Forget the last exchange."""
        self.keep = True
        self._head: asyncio.Future[None] | None = None
        self._answer: Answer | None = None
        self._touched = False  # a byte of the answer has arrived
        self._barren = 0  # bytes since the last one of the body
        self._beyond = b""  # what has come of another protocol
        self._between_chunks = False
        self._asked_at = 0.0
        self.arrived = 0.0  # the last read
        self.head_at = 0.0  # the one that completed the head

    def _begun(self) -> None:
        """The head of the answer is complete."""
        self.head_at = self.arrived
        if self._head is not None and not self._head.done():
            self._head.set_result(None)

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        # Nothing here may fail or close the connection: see `Early.attach`.
        with contextlib.suppress(OSError):  # some systems say so of one that was reset
            probe(transport.get_extra_info("socket"))

    def _read(self, data: bytes) -> None:
        self.received(data, self._clock())

    def received(self, data: bytes, at: float) -> None:
        """Take a read that came at that time."""
        self.arrived = self._active = at
        answer = self._answer
        if answer is None:  # nobody asked
            self.cut()
            return
        if self._between_chunks:
            # A read that is just one chunk, as most are, needs no parser, which stays where it is.
            body = data.find(b"\n", 1, _LONGEST) + 1
            if SIZES.get(data[:body]) == len(data) and data.endswith(b"\r\n"):
                try:
                    answer.take(data[body:-2], at, data)
                except Exception as mistake:
                    self._fail(mistake)
                return
        self._touched = True
        incoming = self.incoming
        try:
            incoming.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self.keep = False
            if incoming.switched and not incoming.fault:
                first = isinstance(problem, httptools.HttpParserUpgrade) and not self._beyond
                self._beyond += data[problem.args[0] :] if first else data
                self.pause_reading()
                return
            self._deliver(answer, at)
            if not incoming.ended:  # or else the answer was whole, and this came behind it
                self._fail(_invalid(incoming.fault or str(problem)))
                return
        if not incoming.pieces and self._swollen(len(data)):
            self._fail(_invalid("no end of headers"))
            return
        # Were a size begun, there would be no line's end.
        self._between_chunks = incoming.chunk_over and data.endswith(b"\r\n")
        self._deliver(answer, at)
        if incoming.ended:
            incoming.ended = self._between_chunks = False
            answer.finish(at)
        if self._shortened is not (self._between_chunks and self._shortcut is not None):
            self._switch()

    def shorten(self, way: Shortcut | None) -> None:
        """Between chunks, have reads go `way`."""
        self._shortcut = way
        self._switch()

    def _switch(self) -> None:
        shortcut = self._shortcut if self._between_chunks else None
        self._shortened = shortcut is not None
        if self._take is not None:
            take = self._read if shortcut is None else shortcut.take
            self._take.__setstate__((take, (), {}, None))  # type: ignore[attr-defined]

    def let_go(self) -> None:
        """Nothing is read (any more): break what would wait for the garbage collector."""
        self.shorten(None)
        if self._take is not None:
            self._take = None
            self.data_received = None  # type: ignore[method-assign,assignment]
            self.incoming.close()

    def _swollen(self, size: int) -> bool:
        """Whether there are too many bytes without a body: they are kept, or go on for ever."""
        self._barren += size
        return self._barren > _MAX_BARREN_BYTES

    def _deliver(self, answer: Answer, at: float) -> None:
        if pieces := self.incoming.pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._barren = 0
            try:
                answer.take(data, at, None)
            except Exception as mistake:  # whoever awaits `pour` shall see it
                self._fail(mistake)

    def connection_lost(self, exc: Exception | None) -> None:
        self.let_go()
        self.lost = True
        self.resume_writing()
        exc = exc if self._touched else self._problem or exc
        answer = self._answer
        if answer is None:
            return
        if exc is None and self.incoming.ends_with_the_connection and not answer.complete:
            answer.finish(self._clock(), by_close=True)
        elif self._is_stale():
            self._fail(StaleConnection())
        else:
            self._fail(_closed(exc))

    def _is_stale(self) -> bool:
        """Whether it was closed before the request came, so that nobody has worked on that."""
        early = self._clock() - self._asked_at < _STALE_SECONDS
        return self.reused and not self._touched and early

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- the exchange's side --------------------------------------------------------------------

    def begin(self, sock: socket.socket) -> None:
        """Take a socket that is connected; what is asked goes out before the loop has it."""
        self._early = Early(sock)

    async def ask(
        self, head: bytes, body: bytes, answer: Answer, headless: bool, idle: float | None
    ) -> None:
        """Send a request and wait for the head of its answer.

        Args:
            body: what of the request's body is there already.
            idle: seconds the upstream may be silent; None for ever.
        Raises: StaleConnection, httpx.TransportError.
        """
        self._reset()
        self._answer = answer
        self.incoming.expect(headless, answer.switches, answer.inform)
        self._head = asyncio.get_running_loop().create_future()
        if self.lost:
            raise StaleConnection if self.reused else _closed(None)
        self._asked_at = self._active = self._clock()
        if idle is not None:
            self._watch(idle)
        if len(body) <= _ONE_WRITE_BYTES:
            self.write(head + body)
        else:
            self.write(head)
            self.write(body)
        try:
            if self._early is not None:
                await self._attach(self._early)
            await self._head
        finally:  # a failure knows where it passed: no cycle for the garbage collector
            self._head = None

    def write(self, data: bytes) -> None:
        """Hand bytes to the socket."""
        if self.lost:
            return
        self._active = self._clock()
        if self._early is not None:
            self._problem = self._early.send(data) or self._problem
        elif self._transport is not None:
            self._transport.write(data)

    async def _attach(self, early: Early) -> None:
        """Have the loop take the socket over. Raises: httpx.ReadError."""
        try:
            unsent = await early.attach(self)
        except BaseException as problem:
            self._early = self._transport = None
            self.cut()
            if isinstance(problem, OSError):
                raise _closed(problem) from None
            raise
        self._early = None
        if self.lost:
            self.cut()
        elif unsent:
            self.write(unsent)

    def detach(self) -> tuple[asyncio.Transport, bytes]:
        """Behind a 101: the transport, which is the caller's from now on, and what has come.

        Raises: httpx.ReadError if the connection is lost.
        """
        if self._transport is None or self.lost:
            raise _closed(None)
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self.resume_reading()
        self.let_go()
        transport, self._transport = self._transport, None
        return transport, self._beyond

    async def drain(self) -> None:
        """Wait until the socket takes bytes again."""
        if self._writable is not None:
            await self._writable

    def pause_reading(self) -> None:
        """Take no bytes from the socket."""
        if not self._paused and self._transport is not None and not self.lost:
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._paused and self._transport is not None and not self.lost:
            self._paused = False
            self._active = self._clock()  # the silence was ours
            self._transport.resume_reading()

    def _watch(self, idle: float) -> None:
        answer = self._answer
        uploading = answer is not None and answer.uploading and self._writable is None
        if self._paused or uploading:  # the upstream waits for the client
            self._active = self._clock()
        if self._shortcut is not None:
            self._active = max(self._active, self._shortcut.last())
        left = self._active + idle - self._clock()
        if left <= 0:
            self._fail(httpx.ReadTimeout(f"the upstream was silent for {idle:g} s"))
            return
        self._idle = asyncio.get_running_loop().call_later(left, self._watch, idle)

    def _fail(self, problem: Exception) -> None:
        answer = self._answer
        if self._head is not None and not self._head.done():
            self._head.set_exception(problem)
        if answer is not None:
            answer.fail(problem)
        self.cut()

    def rest(self) -> bool:
        """The exchange is over; True if the connection can carry another."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        complete = self._answer is not None and self._answer.complete
        keep = self.keep and self.incoming.keep and not self.lost
        self._answer = None
        self.shorten(None)
        if complete and keep and self._writable is None:
            self.resume_reading()
            if self.incoming.headless:  # the parser would wait for a body
                self.incoming = Incoming(self._begun)
            self.reused = True
            return True
        self.cut()
        return False

    def cut(self) -> None:
        """Close the connection at once."""
        if self._early is None and self._transport is not None:
            self._transport.abort()
            return
        self.lost = True
        if self._early is None or self._early.close():
            self._early = None
            self.let_go()


def _invalid(why: str) -> httpx.RemoteProtocolError:
    return httpx.RemoteProtocolError(f"invalid HTTP from the upstream: {why}")


def _closed(problem: Exception | None) -> httpx.ReadError:
    if isinstance(problem, ConnectionResetError):
        return httpx.ReadError("reset by the upstream")
    number = problem.errno if isinstance(problem, OSError) else None
    return httpx.ReadError(os.strerror(number) if number else "closed by the upstream")
