"""The client's side: uvicorn's HTTP protocol, which calls the application with a `Client`.

uvicorn accepts, parses, keeps connections and shuts down.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy import errors
from proxy.admission import FOREIGN_METHODS, MAX_HEAD_BYTES, METHOD, METHOD_BEGUN, fault
from proxy.client import Client, head
from proxy.eager import start
from proxy.errors import Failure
from proxy.flow import Flow
from proxy.headers import Fields, Pair
from proxy.stuck import Stuck

_LINGER_SECONDS = 5.0
# Of a read, before all others have a turn.
_MAX_PIECES = 250
_NOWHERE = cast(list[Pair], deque(maxlen=0))  # keeps nothing of what is appended
_EMPTY = re.compile(rb"[\r\n]+")


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, calling the application with a `Client`."""

    cycle: Any  # the Client whose request was the last one to be read, or is being read
    flow: Flow
    clock: Callable[[], float]
    refused: Callable[[Failure], None]  # a request was refused before anybody saw it
    parting = False  # another process takes over: clients shall come anew
    patience: float | None  # seconds for the head of a request, and for a client silent in its body
    send_limit: float | None  # seconds for a client to take some of what waits for it

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        # The application as given: config.load() wraps it for ASGI.
        self.app = config.app
        self.pairs = _NOWHERE
        self._at = 0.0
        self._rest = b""  # what came behind a request that is being answered
        self._in_head = False
        self._begun = b""  # of a head, in reads before this one
        self._left = 0  # bytes of a body whose length is known
        self._barren = 0  # bytes since the head, or since the last one of the body
        self._deaf = False  # nothing that comes is read any more
        self._fresh: Client | None = None  # whose head is read, and whom nobody serves yet
        self._repeating = False
        self._method = b""  # one that the parser does not know
        self._fault: Failure | None = None
        self._stuck: Stuck | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # Not uvicorn's own, which asks the system for the names of both ends, and for more.
        self.connections.add(self)
        self.transport = transport
        self.flow = Flow(transport)
        self._await(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        self._at = self.clock()
        if self._rest:
            data, self._rest = self._rest + data, b""
        self._read(data)

    def _read(self, data: bytes) -> None:
        """Read one request; what is behind it waits until that is answered."""
        size, at, pieces = len(data), 0, 0
        try:
            while at < size and not self._deaf and not self.transport.is_closing():
                client = self.cycle
                behind = client is not None and client.arrived and not client.response_complete
                if behind or pieces == _MAX_PIECES:
                    self._rest = data[at:]
                    self.flow.pause_reading()
                    if not behind:
                        self.loop.call_soon(self._go_on)
                    break
                pieces += 1
                end = self._end(data, at)
                at += self._feed(data[at:end], end == size)
                if self._fresh is not None and self._fresh.arrived:
                    self._serve(self._fresh)
        except httptools.HttpParserError:
            self._refuse(self._fault or errors.BAD_REQUEST)
        if self._fresh is not None:
            self._serve(self._fresh)

    def _serve(self, client: Client) -> None:
        """Begin with a request, now that the parser is done with what has come of it."""
        self._fresh = None
        if (task := start(client.run_asgi(self.app), self.loop)) is not None:
            client.task = task
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _go_on(self) -> None:
        """Others have had their turn."""
        if self._rest and not self.transport.is_closing():
            self.flow.resume_reading()
            rest, self._rest = self._rest, b""
            self._read(rest)

    def _end(self, data: bytes, start: int) -> int:
        """Where the request may end that is being read, or begins here: nowhere before."""
        if self._left:
            return min(start + self._left, len(data))
        if start == 0 and data[0] in b"\r\n" and (lines := _EMPTY.match(data)):
            return lines.end()  # of which the first may be the last of a head
        end = data.find(b"\r\n\r\n", start)  # of a head, or of a body in chunks
        return len(data) if end < 0 else end + 4

    def _feed(self, piece: bytes, last: bool) -> int:
        """Have the parser read; how much it took for HTTP.

        Args:
            last: nothing has come behind it.
        """
        self._barren += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            taken: int = upgrade.args[0]
            if last and taken == len(piece) and self._is_for_upstream(self.cycle):
                self._offer_upgrade(self.cycle)
            else:
                self._decline_upgrade()
            return taken
        except httptools.HttpParserError as problem:
            if not self._in_head:
                raise
            known = self._stand_in(self._begun + piece, problem)
            return len(piece) - len(known) + self._feed(known, last) if known else len(piece)
        if self._in_head:
            self._begun += piece
        if self._barren > MAX_HEAD_BYTES and (self._in_head or not self.cycle.arrived):
            self._refuse(errors.HEAD_TOO_LARGE)
        return len(piece)

    def _stand_in(self, head: bytes, problem: httptools.HttpParserError) -> bytes:
        """A request whose method the parser does not know, with one that it knows.

        Empty if the method is not all there. Raises: httptools.HttpParserError.
        """
        found = METHOD.match(head)
        unknown = isinstance(problem, httptools.HttpParserInvalidMethodError)
        if self._method or not (unknown or (found and found[1] in FOREIGN_METHODS)):
            raise problem
        self.parser = httptools.HttpRequestParser(self)
        if found is not None:
            self._method = found[1]
            return b"POST" + head[found.end(1) :]
        if not METHOD_BEGUN.fullmatch(head):
            raise problem
        self._rest = head
        return b""

    def _is_for_upstream(self, client: Client) -> bool:
        """Whether the upstream may take up the other protocol that is offered."""
        bodies = client.fields.names() & {b"content-length", b"transfer-encoding"}
        if bodies or client.http10:
            return False
        offered = client.fields[b"upgrade"].lower().split(",")
        return not any(one.strip().startswith(("h2c", "http/", "tls/")) for one in offered)

    def _offer_upgrade(self, client: Client) -> None:
        """Nothing is read until the upstream has said what comes next."""
        client.offer = client.fields[b"upgrade"].encode("latin-1")
        self.parser = httptools.HttpRequestParser(self)
        self.flow.pause_reading()

    def _decline_upgrade(self) -> None:
        """Go on in HTTP/1.1, which every server may do (RFC 9110, 7.8).

        The parser takes the request's body for the other protocol's: a new one has to read it.
        """
        client: Client = self.cycle
        framing = [
            b"%b: %b\r\n" % pair
            for pair in client.headers
            if pair[0].lower() in (b"content-length", b"transfer-encoding")
        ]
        client.arrived = 0.0
        self.parser = httptools.HttpRequestParser(self)
        self._repeating = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._repeating = False

    def _refuse(self, failure: Failure) -> None:
        """What the client sends is no HTTP (any more)."""
        self._deaf = True
        client: Client | None = self.cycle
        if client is not None and not client.response_complete:
            client.refused = failure
            client.leave()
            if client.status:
                client.cut()
                return
        else:
            self.refused(failure)
        headers, body = failure.answer()
        headers.append((b"Connection", b"close"))
        self.transport.write(head(failure.status, b"", headers) + body)
        self.linger()

    def linger(self) -> None:
        """Close the connection, though the client is still sending.

        To close at once would reset it, and the reset can overtake our answer.
        """
        self._deaf = True
        self.flow.resume_reading()
        if self.transport.can_write_eof():  # not with TLS, where the timer has to do
            self.transport.write_eof()
        self._unset_keepalive_if_required()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def close(self) -> None:
        """Close the connection once the client has taken what is written."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._watch()

    def _watch(self) -> None:
        """Bytes wait for the client."""
        if self.send_limit is not None:
            if self._stuck is None:
                self._stuck = Stuck(
                    self.transport, self.clock, self.send_limit, self._takes_nothing
                )
            self._stuck.begin()

    def _takes_nothing(self) -> None:
        if self.cycle is not None:
            self.cycle.stuck = f"the client took nothing for {self.send_limit:g} s"
        self.transport.abort()

    # --- httptools' side ------------------------------------------------------------------------

    def _await(self, seconds: float | None, then: Callable[[], None]) -> None:
        self._unset_keepalive_if_required()
        if seconds is not None:
            self.timeout_keep_alive_task = self.loop.call_later(seconds, then)

    def _head_is_late(self) -> None:
        self._refuse(errors.SLOW)

    def timeout_keep_alive_handler(self) -> None:
        """No request came in time."""
        self.close()

    def body_is_late(self) -> None:
        """The client has been silent for too long in the middle of its request."""
        self._refuse(errors.SLOW)

    def on_message_begin(self) -> None:
        if not self._in_head:  # else it is read anew, with another method
            self._await(self.patience, self._head_is_late)
            self._in_head = True
        self._begun = b""
        self._barren = 0
        self.url = b""
        self.pairs = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unset_keepalive_if_required()
        self._begun = b""
        self._barren = 0
        headers, self.pairs = self.pairs, _NOWHERE  # what comes behind the body are not headers
        if self._repeating:
            return
        version = self.parser.get_http_version()
        self._fault = fault(version, self.url, headers)
        # A way to anywhere; in small letters it is another method, which some take for this one.
        if (self._method or self.parser.get_method()).upper() == b"CONNECT":
            self._fault = errors.BAD_TARGET
        if self._fault is not None:
            raise ValueError  # which stops the parser
        fields = Fields(headers)
        self._left = int(fields[b"content-length"] or 0)
        modern = version != "1.0"
        expects = modern and fields[b"expect"].lower() == "100-continue"
        keep_alive = modern and self.parser.should_keep_alive() and not self.parting
        self.cycle = self._fresh = client = Client(self, headers, fields, keep_alive, expects)
        if self._method:
            client.method, self._method = self._method.decode("ascii"), b""

    def part(self) -> None:
        """Say with the next answer that the connection ends behind it, if that can be said yet."""
        if self.cycle is not None and not self.cycle.status and not self._rest:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._left:
            self._left -= len(body)
        self._barren = 0
        self.cycle.take(body)

    def on_message_complete(self) -> None:
        self.cycle.complete(self._at)

    def on_response_complete(self) -> None:
        """uvicorn's: the next request may be read, or awaited."""
        super().on_response_complete()
        if self._rest:  # once the connection to the upstream is free again
            self.loop.call_soon(self._go_on)

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.flow.stop()
        if self._stuck is not None:
            self._stuck.end()
            self._stuck = None
        if self.cycle is not None:
            self.cycle.leave()
        # Each client holds its protocol: no cycles for the garbage collector.
        self.parser = self.cycle = None  # type: ignore[assignment]

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        self._watch()
        if self.cycle is not None and self.cycle.full is not None:
            self.cycle.full()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        if self._stuck is not None and not self.transport.is_closing():
            self._stuck.end()
        if self.cycle is not None and self.cycle.free is not None:
            self.cycle.free()
