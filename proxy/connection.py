"""One connection to an inference server, on httptools.

The arrival time of every read is taken where its bytes come off the socket. Errors of sockets and
of the protocol become httpx's here and in `upstream`, nowhere else.
"""

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from typing import cast

import httptools
import httpx

from proxy.answer import Answer, Shortcut
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
_VISIBLE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

# A request with a body up to this goes out in one write with its head.
_ONE_WRITE_BYTES = 64 << 10


class StaleConnection(Exception):
    """A kept connection turned out to be closed before it gave a byte of the answer."""


class Connection(asyncio.Protocol):
    """One connection to an upstream; carries one exchange at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made_at = clock()
        self._parser = httptools.HttpResponseParser(self)
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
        self.keep = False
        self._head: asyncio.Future[None] | None = None
        self._answer: Answer | None = None
        self._headless = False  # the answer to a HEAD has no body, whatever its headers say
        self._touched = False  # a byte of the answer has arrived
        self._started = False  # its head is complete
        self._framed = False
        self._interim = False
        self._surplus = False
        self._switched = False  # to another protocol, of which
        self._beyond = b""  # this has come
        self._barren = 0  # bytes since the last one of the body
        self._fault = ""  # what is wrong with the head, though it can be parsed
        self._chunk_over = False  # the last thing that the parser saw was the end of a chunk
        self._between_chunks = False
        self._pieces: list[bytes] = []
        self._ended = False
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self._asked_at = 0.0
        self.arrived = 0.0  # the last read
        self.head_at = 0.0  # the one that completed the head

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
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
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self.keep = False
            if self._switched and not self._fault:
                first = isinstance(problem, httptools.HttpParserUpgrade) and not self._beyond
                self._beyond += data[problem.args[0] :] if first else data
                self.pause_reading()
                return
            self._deliver(answer, at)
            if not self._ended:  # or else the answer was whole, and this came behind it
                self._fail(_invalid(self._fault or str(problem)))
                return
        if not self._pieces and self._swollen(len(data)):
            self._fail(_invalid("no end of headers"))
            return
        # Were a size begun, there would be no line's end.
        self._between_chunks = self._chunk_over and data.endswith(b"\r\n")
        self._deliver(answer, at)
        if self._ended:
            self._ended = self._between_chunks = False
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

    def _let_go(self) -> None:
        """Nothing is read any more. What refers to itself would wait for the garbage collector."""
        self.shorten(None)
        self._take = None
        self.data_received = None  # type: ignore[method-assign,assignment]

    def _swollen(self, size: int) -> bool:
        """Whether there are too many bytes without a body: they are kept, or go on for ever."""
        self._barren += size
        return self._barren > _MAX_BARREN_BYTES

    def _deliver(self, answer: Answer, at: float) -> None:
        if pieces := self._pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._barren = 0
            try:
                answer.take(data, at, None)
            except Exception as mistake:  # whoever awaits `pour` shall see it
                self._fail(mistake)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        self.lost = True
        self.resume_writing()
        answer = self._answer
        if answer is None:
            return
        if exc is None and self._started and not self._framed and not answer.complete:
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

    # --- httptools' side ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._started:  # a second answer that nobody asked for
            self.keep, self._surplus = False, True

    def on_status(self, reason: bytes) -> None:
        if not self._surplus:
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._started:  # trailers end here, like all hop-by-hop fields
            return
        self.headers.append((name, value))
        if len(name) == 14 and name.lower() == b"content-length":
            self._framed = True
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            coding = value.strip(b" \t").lower()
            self._framed = coding == b"chunked"
            if coding not in (b"chunked", b"identity"):  # nobody would undo it
                self._fault = "a transfer coding other than chunked"

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        self.status = self._parser.get_status_code()
        self._switched = self.status == 101
        if self.status < 100:
            self._fault = "no such status"
        if self._switched and not self._may_switch():
            self._fault = "a switch to another protocol that was not offered"
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._fault = "another version of HTTP"
        if self._fault:
            raise ValueError  # which stops the parser
        if not _VISIBLE.fullmatch(self.reason):
            self.reason = b""
        if 100 <= self.status < 200 and not self._switched:
            self._interim = True
            return
        self._started = True
        self.head_at = self.arrived
        # Behind an answer of HTTP/1.0 with a transfer coding nobody knows (RFC 9112, 6.1).
        self.keep = self._parser.should_keep_alive() and version == "1.1"
        if self.status in (204, 304):
            self._framed = True
        if self._head is not None and not self._head.done():
            self._head.set_result(None)
        if self._headless:
            self._framed = self._ended = True

    def _may_switch(self) -> bool:
        """Whether it is to a protocol that was offered, and said as RFC 9110, 7.8, has it."""
        offered = self._answer.switches if self._answer is not None else b""
        fields = [(name.lower(), value.lower()) for name, value in self.headers]
        options = [value for name, value in fields if name == b"connection"]
        if b"upgrade" not in {one.strip() for one in b",".join(options).split(b",")}:
            return False
        chosen = [value for name, value in fields if name == b"upgrade"]
        known = {one.strip() for one in offered.lower().split(b",")}
        return len(chosen) == 1 and chosen[0].strip() in known - {b""}

    def on_chunk_header(self) -> None:
        self._chunk_over = False

    def on_chunk_complete(self) -> None:
        self._chunk_over = not self._surplus

    def on_body(self, data: bytes) -> None:
        if self._headless:
            self.keep = False
        elif not self._surplus:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._interim:
            if self._answer is not None and self._answer.inform is not None:
                self._answer.inform(self.status, self.reason, self.headers.copy())
            self._interim = self._framed = False
            self.headers.clear()
            self.reason = b""
        elif not self._surplus and not self._switched:
            self._ended = True

    # --- the exchange's side --------------------------------------------------------------------

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
        self._headless = headless
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
        await self._head

    def write(self, data: bytes) -> None:
        """Hand bytes to the socket."""
        if self._transport is not None and not self.lost:
            self._active = self._clock()
            self._transport.write(data)

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
        self._let_go()
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
        self._answer = None
        self.shorten(None)
        if complete and self.keep and not self.lost and self._writable is None:
            self.resume_reading()
            if self._headless:  # the parser would wait for a body
                self._parser = httptools.HttpResponseParser(self)
            self.reused = True
            return True
        self.cut()
        return False

    def cut(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def _invalid(why: str) -> httpx.RemoteProtocolError:
    return httpx.RemoteProtocolError(f"invalid HTTP from the upstream: {why}")


def _closed(problem: Exception | None) -> httpx.ReadError:
    if isinstance(problem, ConnectionResetError):
        return httpx.ReadError("reset by the upstream")
    number = problem.errno if isinstance(problem, OSError) else None
    return httpx.ReadError(os.strerror(number) if number else "closed by the upstream")
