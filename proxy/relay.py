"""One exchange from first byte to last: the only place where client, upstream and meter meet.

Each chunk is stamped where it comes off the upstream's socket, forwarded, then looked at, all in
that socket's callback.
"""

import asyncio
import contextlib
import itertools
import os
import random
import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import httpx
import orjson

from proxy import errors
from proxy.address import Upstream
from proxy.client import Client
from proxy.connection import Answer, Clock
from proxy.errors import Failure
from proxy.exchange import Exchange
from proxy.formats import OTHER, interface
from proxy.formats.event import Call, Interface
from proxy.framing import media_type
from proxy.headers import Pair, identity_only, to_client, to_upstream, value_of
from proxy.injection import Withdrawal, ask_usage
from proxy.ledger import Ledger
from proxy.meter import Meter, Outcome
from proxy.tokens import Learning


class Rules(NamedTuple):
    """Settings of the relay; times in seconds, sizes in bytes."""

    inject_usage: bool = True
    preserve_host: bool = False
    max_inspect_bytes: int = 64 << 20
    connect_timeout: float | None = 5.0
    idle_timeout: float | None = None
    stall_seconds: float = 2.0


class Way(NamedTuple):
    """An upstream and how it is reached."""

    upstream: Upstream
    transport: httpx.AsyncBaseTransport


class Order(NamedTuple):
    """A request as it goes to the upstream; `body` is None where it streams through."""

    way: Way
    target: bytes
    headers: list[Pair]
    body: bytes | None


# Bodies that no interface of ours has as its JSON.
_OPAQUE = ("multipart/", "audio/", "image/", "video/", "application/octet-stream")
_MAX_REMEMBERED = 1000
_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


class Relay:
    """Takes clients, one call for each request.

    Args:
        ways: the upstreams, longest prefix first.
        clock: monotonic seconds; stamps are taken with it.
        wall: seconds since the epoch, for people.
    """

    def __init__(
        self,
        ways: Sequence[Way],
        rules: Rules,
        ledger: Ledger,
        clock: Clock,
        wall: Callable[[], float],
    ) -> None:
        self._ways = ways
        self._rules = rules
        self._ledger = ledger
        self._clock = clock
        self._wall = wall
        self._numbers = itertools.count(1)
        self._learning = Learning()
        self._never_ask: set[tuple[str, str | None]] = set()  # upstream, model
        self._urls = {way.upstream.name: httpx.URL(way.upstream.url) for way in ways}
        self.draining = False

    async def __call__(self, client: Client) -> None:
        """Serve one request."""
        wall = self._wall()
        found = self._route(client.target)
        if isinstance(found, Failure):
            _answer(client, found)
            return
        way, target = found
        path = target.partition(b"?")[0].decode("latin-1")
        face = interface(path) if client.method == "POST" else OTHER
        exchange = None
        try:
            body = await self._held(client, face)
            exchange = self._open(client, way, face, _call(face, body, path), wall)
            await self._serve(client, exchange, way, target, body)
        except asyncio.CancelledError:
            exchange = exchange or self._open(client, way, face, face.call({}, path), wall)
            if client.gone:
                exchange.outcome = _left(exchange.meter)
                if not exchange.code:
                    exchange.t_end = self._clock()
            raise
        except Exception as mistake:
            _confess(mistake)
            if not client.status:
                _answer(client, errors.INTERNAL)
        finally:
            if exchange is not None:
                exchange.over_at = self._clock()
                self._ledger.end(exchange)

    # --- before the upstream --------------------------------------------------------------------

    def _route(self, target: bytes) -> tuple[Way, bytes] | Failure:
        """The upstream of a target, and the target as that upstream gets it."""
        if origin := _ORIGIN.match(target):
            target = target[origin.end() :]
            target = target if target.startswith(b"/") else b"/" + target
        if not target.startswith(b"/"):
            return errors.BAD_TARGET
        path = target.partition(b"?")[0]
        for way in self._ways:
            prefix = way.upstream.prefix.encode("ascii").rstrip(b"/")
            if path == prefix or path.startswith(prefix + b"/"):
                rest = target[len(prefix) :]
                rest = rest if rest.startswith(b"/") else b"/" + rest
                return way, way.upstream.base.encode("ascii") + rest
        return errors.NO_ROUTE

    async def _held(self, client: Client, face: Interface) -> bytes | None:
        """The request's body where it is to be read; None where it streams through."""
        if client.arrived:
            return client.body()
        kind = media_type(value_of(client.headers, b"content-type"))
        if face is OTHER or kind.startswith(_OPAQUE):
            return None
        length = value_of(client.headers, b"content-length")
        if length.isdigit() and int(length) > self._rules.max_inspect_bytes:
            return None
        return client.body() if await client.collect(self._rules.max_inspect_bytes) else None

    def _open(self, client: Client, way: Way, face: Interface, call: Call, wall: float) -> Exchange:
        upstream = way.upstream.name
        exchange = Exchange(
            next(self._numbers),
            upstream,
            client.headers,
            f"{random.getrandbits(128):032x}",
            wall,
            call,
            face,
            self._learning.of(upstream, call.model),
            client.arrived or self._clock(),
            self._rules.stall_seconds,
        )
        self._ledger.begin(exchange)
        return exchange

    # --- the upstream ---------------------------------------------------------------------------

    async def _serve(
        self, client: Client, exchange: Exchange, way: Way, target: bytes, body: bytes | None
    ) -> None:
        if self.draining:
            self._refuse(client, exchange, errors.DRAINING, Outcome.ABORTED)
            return
        kept = self._rules.preserve_host and value_of(client.headers, b"host")
        host = None if kept else way.upstream.authority.encode("ascii")
        order = Order(way, target, to_upstream(client.headers, host), body)
        name = way.upstream.name
        try:
            answer, withdrawal = await self._ask(client, exchange, order)
        except httpx.TimeoutException as problem:
            self._refuse(client, exchange, errors.timed_out(name, str(problem)), Outcome.TIMEOUT)
        except httpx.TransportError as problem:
            failure = errors.unreachable(name, str(problem))
            self._refuse(client, exchange, failure, Outcome.UNREACHABLE)
        else:
            try:
                await self._relay(client, exchange, answer, withdrawal)
            finally:
                await answer.aclose()

    def _refuse(
        self, client: Client, exchange: Exchange, failure: Failure, outcome: Outcome
    ) -> None:
        """Answer for the upstream."""
        exchange.outcome = outcome
        exchange.t_end = self._clock()
        exchange.code = failure.status
        exchange.meter.stream = exchange.call.stream
        _answer(client, failure)

    async def _ask(
        self, client: Client, exchange: Exchange, order: Order
    ) -> tuple[httpx.Response, Withdrawal | None]:
        """The upstream's answer, with usage asked for where the client did not."""
        edited = self._with_usage(exchange, order)
        if edited is None:
            return await self._send(client, exchange, order), None
        answer = await self._send(client, exchange, edited)
        if answer.status_code not in (400, 422):
            return answer, Withdrawal()
        await answer.aclose()
        answer = await self._send(client, exchange, order)
        if answer.is_success:  # it was the question that it would not take
            self._ask_no_more(exchange)
        return answer, None

    def _with_usage(self, exchange: Exchange, order: Order) -> Order | None:
        call = exchange.call
        wanted = self._rules.inject_usage and call.stream and call.can_ask_usage
        if not wanted or call.asks_usage or (exchange.upstream, call.model) in self._never_ask:
            return None
        body = ask_usage(order.body) if order.body else None
        return (body and order._replace(body=body, headers=identity_only(order.headers))) or None

    def _ask_no_more(self, exchange: Exchange) -> None:
        if len(self._never_ask) >= _MAX_REMEMBERED:  # names come from clients
            self._never_ask.clear()
        self._never_ask.add((exchange.upstream, exchange.call.model))

    async def _send(self, client: Client, exchange: Exchange, order: Order) -> httpx.Response:
        """Send a request; the answer as soon as its head is there."""
        headers = order.headers
        stream: httpx.AsyncByteStream
        if order.body is None:
            headers = [*headers, _framing(client.headers)]
            stream = Upload(client, exchange)
        else:
            if order.body or client.method in ("POST", "PUT", "PATCH"):
                headers = [*headers, (b"Content-Length", b"%d" % len(order.body))]
            stream = httpx.ByteStream(order.body)
        request = httpx.Request(
            client.method,
            self._urls[exchange.upstream],
            headers=headers,
            stream=stream,
            extensions={
                "target": order.target,
                "timeout": {
                    "connect": self._rules.connect_timeout,
                    "read": self._rules.idle_timeout,
                },
            },
        )
        return await order.way.transport.handle_async_request(request)

    # --- the answer -----------------------------------------------------------------------------

    async def _relay(
        self,
        client: Client,
        exchange: Exchange,
        response: httpx.Response,
        withdrawal: Withdrawal | None,
    ) -> None:
        meter = exchange.meter
        headers = response.headers.raw
        status = response.status_code
        kind = value_of(headers, b"content-type")
        encoding = value_of(headers, b"content-encoding")
        exchange.code = status
        exchange.answered = 200 <= status < 300
        exchange.t_end = response.extensions.get("arrived") or self._clock()
        meter.head(status, kind, encoding, exchange.t_end)
        server = value_of(headers, b"server")
        self._ledger.server(exchange.upstream, server)
        events = media_type(kind) == "text/event-stream"
        if not events or encoding not in ("", "identity"):
            withdrawal = None
        passed = to_client(headers, events)
        if withdrawal is not None:  # it will be shorter than the upstream says
            passed = [(n, v) for n, v in passed if n.lower() != b"content-length"]
        client.start(status, response.extensions.get("reason_phrase", b""), passed)
        try:
            await self._pour(client, exchange, response.stream, withdrawal)
        except httpx.TransportError as problem:
            timeout = isinstance(problem, httpx.TimeoutException)
            broken = Outcome.TIMEOUT if timeout else Outcome.TRUNCATED
            exchange.outcome = Outcome.ERROR_MIDSTREAM if meter.error else broken
            client.cut()
            return
        exchange.outcome = _verdict(status, meter)
        if withdrawal is not None and "llama.cpp" in server and meter.engine:
            self._ask_no_more(exchange)  # it tells anyhow, and clients may want its timings

    async def _pour(
        self,
        client: Client,
        exchange: Exchange,
        stream: httpx.AsyncByteStream | httpx.SyncByteStream,
        withdrawal: Withdrawal | None,
    ) -> None:
        """Forward the body, each read as it arrives, and look at it afterwards."""
        assert isinstance(stream, Answer)
        meter, ledger, clock = exchange.meter, self._ledger, self._clock
        overhead = ledger.overhead(exchange.upstream)
        write = client.write
        recognise, recognised = meter.recognise, meter.recognised

        def sink(data: bytes, at: float, framed: bytes | None) -> None:
            exchange.t_end = at
            # The one look before forwarding: a read like those before has nothing to withdraw.
            characters = recognise(data)
            passed = data if characters or withdrawal is None else withdrawal.feed(data)
            write(passed, framed if passed is data else None)
            if not exchange.moved:  # one read of a stream in each batch of records is enough
                overhead.append(clock() - at)
                ledger.moved(exchange)
            if characters:
                recognised(characters, at)
            else:
                _look(meter, data, at)

        hold = Hold(stream, meter, clock)
        client.on_full(hold.begin, hold.end)
        try:
            await stream.pour(sink)
            exchange.t_end = stream.arrived or exchange.t_end
            if withdrawal is not None:
                write(withdrawal.end(), None)
            client.end()
            meter.end(exchange.t_end)
        finally:
            client.on_full(None, None)
            hold.end()


class Hold:
    """Stops reading the upstream while the client takes no bytes, and times that."""

    __slots__ = ("_answer", "_clock", "_meter", "_since")

    def __init__(self, answer: Answer, meter: Meter, clock: Clock) -> None:
        self._answer = answer
        self._meter = meter
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """The client's socket is full."""
        if self._since is None:
            self._since = self._clock()
            self._answer.pause()

    def end(self) -> None:
        """It takes bytes again, or nothing more is to come."""
        if self._since is not None:
            self._meter.waited(self._clock() - self._since)
            self._since = None
            self._answer.resume()


class Upload(httpx.AsyncByteStream):
    """A request's body on its way through."""

    def __init__(self, client: Client, exchange: Exchange) -> None:
        self._client = client
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Pieces as they come. The last one's arrival is the exchange's t0."""
        async for data in self._client.stream():
            yield data
        self._exchange.uploaded(self._client.arrived)


def _framing(headers: list[Pair]) -> Pair:
    """How a body that streams through is framed: as it came."""
    length = value_of(headers, b"content-length")
    if length:
        return b"Content-Length", length.encode("latin-1")
    return b"Transfer-Encoding", b"chunked"


def _call(face: Interface, body: bytes | None, path: str) -> Call:
    """What the request asks for, as far as its body can be read."""
    parsed = None
    if face is not OTHER and body:
        # What is no JSON is forwarded as it is: the upstream says what it thinks of it.
        with contextlib.suppress(orjson.JSONDecodeError):
            parsed = orjson.loads(body)
    return face.call(parsed if isinstance(parsed, dict) else {}, path)


def _look(meter: Meter, data: bytes, at: float) -> None:
    try:
        meter.read(data, at)
    except Exception as mistake:  # ours: the bytes are on their way all the same
        meter.give_up("malformed")
        _confess(mistake)


def _confess(mistake: Exception) -> None:
    """Say where we broke, never over what: that may be somebody's text."""
    trace = traceback.extract_tb(mistake.__traceback__)[-1]
    where = f"{os.path.basename(trace.filename)}:{trace.lineno}"
    print(f"tokometer: {type(mistake).__name__} in {where}, please report", file=sys.stderr)


def _left(meter: Meter) -> Outcome:
    """The outcome when the client closed the connection."""
    if meter.error:
        return Outcome.ERROR_MIDSTREAM
    return Outcome.COMPLETED if meter.ended else Outcome.CLIENT_CLOSED


def _verdict(status: int, meter: Meter) -> Outcome:
    """The outcome of an answer whose body came to its end."""
    if status >= 400:
        return Outcome.REJECTED
    if meter.error:
        return Outcome.ERROR_MIDSTREAM
    if meter.stream and meter.readable and not meter.ended:
        return Outcome.TRUNCATED
    return Outcome.COMPLETED


def _answer(client: Client, failure: Failure) -> None:
    """Send a failure of the proxy's own."""
    headers, body = failure.answer()
    client.start(failure.status, b"", headers)
    if client.method != "HEAD":
        client.write(body)
    client.end()
