"""The client's side: uvicorn's HTTP protocol, which calls the application with a `Client`.

uvicorn accepts, parses, keeps connections and shuts down.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy import errors
from proxy.admission import MAX_HEAD_BYTES, METHOD, fault
from proxy.client import Client, head
from proxy.errors import Failure
from proxy.headers import Fields, Pair
from proxy.probes import probe

_LINGER_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, calling the application with a `Client`."""

    cycle: Any  # the Client whose request is being read
    flow: "Flow"
    clock: Callable[[], float]
    parting = False  # another process takes over: clients shall come anew

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
        self._serving: Client | None = None  # the one that is being answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._method = b""  # one that the parser does not know
        self._fault: Failure | None = None
        super().connection_made(transport)
        self.flow = Flow(transport)
        probe(transport)
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
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
        before = self.cycle
        between = before is None or before.arrived
            self._decline_upgrade()
            return data[upgrade.args[0] :]
        except httptools.HttpParserInvalidMethodError:
            if not between or self._head_bytes or self.cycle is not before:
                raise
            return self._stand_in(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(errors.HEAD_TOO_LARGE)
        return b""

    def _decline_upgrade(self) -> None:
        """Go on in HTTP/1.1, which every server may do (RFC 9110, 7.8).

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

        The parser takes the request's body for the other protocol's: a new one has to read it.
        """
        client: Client = self.cycle
        if client.method == "CONNECT":  # what follows is not HTTP
            client.keep_alive = False
            return
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
            serving.leave()
            if serving.status or serving is not self.cycle:
                serving.cut()
            serving.refused = failure
                return
        headers, body = failure.answer()
        headers.append((b"Connection", b"close"))
        self.transport.write(head(failure.status, b"", headers) + body)
        else:
            self.refused(failure)
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

    def on_message_begin(self) -> None:
        self._await(self.patience, self._head_is_late)
        self._in_head = True
        self._head_bytes = 0
    def _head_is_late(self) -> None:
        if self._serving is None or self._serving.response_complete:
            self._refuse(errors.SLOW)

    def body_is_late(self) -> None:
        """The client has been silent for too long in the middle of its request."""
        self._refuse(errors.SLOW)

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
        waiting = self.cycle is not None and not self.cycle.response_complete
        fields = Fields(headers)
        modern = version != "1.0"
        expects = modern and fields[b"expect"].lower() == "100-continue"
        version = self.parser.get_http_version()
        self._fault = fault(version, self.url, headers)
        if self._fault is not None:
            raise ValueError  # which stops the parser
        keep_alive = modern and self.parser.should_keep_alive() and not self.parting
        self.cycle = client = Client(self, headers, fields, keep_alive, expects)
        if waiting:  # a pipelined request
            self.flow.pause_reading()
            self.pipeline.appendleft((client, self.app))  # type: ignore[arg-type]
        else:
        if self._method:
            client.method, self._method = self._method.decode("ascii"), b""
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

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.flow.stop()
        self.pipeline.clear()
        if self._serving is not None:
            self._serving.leave()
    def on_response_complete(self) -> None:
        """uvicorn's: the next request may be served, or awaited."""
        super().on_response_complete()
        if self._in_head and not self.transport.is_closing():
            self._await(self.patience, self._head_is_late)

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


class Flow(FlowControl):
    """uvicorn's flow control; notices a client that leaves while nothing is read from it.

    Nobody reads the end of a connection while reading is paused: its bytes stand before it. The
    kernel has to be asked, which is done now and then, since pauses are rare.
    """

    # Not everywhere: what is left then are resets.
    _EVENTS = getattr(select, "POLLRDHUP", 0)

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._timer: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        super().pause_reading()
        if self._timer is None:
            self._arm()

    def resume_reading(self) -> None:
        super().resume_reading()
        self.stop()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), self._EVENTS)
        if poll.poll(0):
            self.stop()
            self._transport.abort()
        else:
            self._arm()
