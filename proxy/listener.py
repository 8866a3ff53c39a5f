"""The client's side: uvicorn's HTTP protocol, which calls the application with a `Client`.

uvicorn accepts, parses, keeps connections and shuts down.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy import errors
from proxy.admission import MAX_HEAD_BYTES, METHOD, fault
from proxy.client import Client, head
from proxy.errors import Failure
from proxy.flow import Flow
from proxy.headers import Fields, Pair

_LINGER_SECONDS = 5.0


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, calling the application with a `Client`."""

    cycle: Any  # the Client whose request is being read
    flow: Flow
    clock: Callable[[], float]
    refused: Callable[[Failure], None]  # a request was refused before anybody saw it
    parting = False  # another process takes over: clients shall come anew
    patience: float | None  # seconds for the head of a request, and for a client silent in its body

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        # The application as given: config.load() wraps it for ASGI.
        self.app = config.app
        self.pairs: list[Pair] = []
        self._at = 0.0
        self._in_head = False
        self._head_bytes = 0  # in reads before this one
        self._deaf = False  # nothing that comes is read any more
        self._repeating = False
        self._method = b""  # one that the parser does not know
        self._fault: Failure | None = None
        self._serving: Client | None = None  # the one that is being answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # Not uvicorn's own, which asks the system for the names of both ends, and for more.
        self.connections.add(self)
        self.transport = transport
        self.flow = Flow(transport)
        self._await(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        self._at = self.clock()
        try:
            while data and not self._deaf:
                data = self._feed(data)
        except httptools.HttpParserError:
            self._refuse(self._fault or errors.BAD_REQUEST)

    def _feed(self, data: bytes) -> bytes:
        """Have the parser read; what it did not take for HTTP."""
        if self._in_head:
            self._head_bytes += len(data)
        before = self.cycle
        between = before is None or before.arrived
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserInvalidMethodError:
            if not between or self._head_bytes or self.cycle is not before:
                raise
            return self._stand_in(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if not rest and self._is_for_upstream(self.cycle):
                self._offer_upgrade(self.cycle)
            else:
                self._decline_upgrade()
            return rest
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(errors.HEAD_TOO_LARGE)
        return b""

    def _stand_in(self, data: bytes) -> bytes:
        """A request whose method the parser does not know, with one that it knows.

        Raises: httptools.HttpParserInvalidMethodError.
        """
        found = METHOD.match(data)
        if found is None or self._method:
            raise httptools.HttpParserInvalidMethodError
        self._method = found[1]
        self.parser = httptools.HttpRequestParser(self)
        return b"POST" + data[found.end(1) :]

    def _is_for_upstream(self, client: Client) -> bool:
        """Whether the upstream may take up the other protocol that is offered."""
        bodies = client.fields.names() & {b"content-length", b"transfer-encoding"}
        if bodies or client.http10 or client is not self._serving:
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
        serving = self._serving
        if serving is not None and not serving.response_complete:
            if self.cycle.arrived:
                self.cycle.keep_alive = False  # what it asked before is still answered
                return
            serving.refused = failure
            serving.leave()
            if serving.status or serving is not self.cycle:
                serving.cut()
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

    # --- httptools' side ------------------------------------------------------------------------

    def _await(self, seconds: float | None, then: Callable[[], None]) -> None:
        self._unset_keepalive_if_required()
        if seconds is not None:
            self.timeout_keep_alive_task = self.loop.call_later(seconds, then)

    def timeout_keep_alive_handler(self) -> None:
        """No request came in time."""
        if self._serving is None or self._serving.response_complete:
            super().timeout_keep_alive_handler()

    def _head_is_late(self) -> None:
        if self._serving is None or self._serving.response_complete:
            self._refuse(errors.SLOW)

    def body_is_late(self) -> None:
        """The client has been silent for too long in the middle of its request."""
        self._refuse(errors.SLOW)

    def on_message_begin(self) -> None:
        self._await(self.patience, self._head_is_late)
        self._in_head = True
        self._head_bytes = 0
        self.url = b""
        self.pairs = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unset_keepalive_if_required()
        headers, self.pairs = self.pairs, []  # what comes behind the body are not headers
        if self._repeating:
            return
        version = self.parser.get_http_version()
        self._fault = fault(version, self.url, headers)
        # A way to anywhere; in small letters it is another method, which some take for this one.
        if (self._method or self.parser.get_method()).upper() == b"CONNECT":
            self._fault = errors.BAD_TARGET
        if self._fault is not None:
            raise ValueError  # which stops the parser
        waiting = self.cycle is not None and not self.cycle.response_complete
        fields = Fields(headers)
        modern = version != "1.0"
        expects = modern and fields[b"expect"].lower() == "100-continue"
        keep_alive = modern and self.parser.should_keep_alive() and not self.parting
        self.cycle = client = Client(self, headers, fields, keep_alive, expects)
        if self._method:
            client.method, self._method = self._method.decode("ascii"), b""
        if waiting:  # a pipelined request
            self.flow.pause_reading()
            self.pipeline.appendleft((client, self.app))  # type: ignore[arg-type]
        else:
            self._start_asgi_task(client, self.app)

    def part(self) -> None:
        """Say with the next answer that the connection ends behind it, if that can be said yet."""
        if self.cycle is not None and not self.cycle.status:
            self.cycle.keep_alive = False

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

    def on_response_complete(self) -> None:
        """uvicorn's: the next request may be served, or awaited."""
        super().on_response_complete()
        if self._in_head and not self.transport.is_closing():
            self._await(self.patience, self._head_is_late)

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.flow.stop()
        self.pipeline.clear()
        if self._serving is not None:
            self._serving.leave()
        # Each client holds its protocol: no cycles for the garbage collector.
        self.parser = self.cycle = self._serving = None  # type: ignore[assignment]

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        if self._serving is not None and self._serving.full is not None:
            self._serving.full()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        if self._serving is not None and self._serving.free is not None:
            self._serving.free()
