"""One exchange from first byte to last: the only place where client, upstream and meter meet.

Each chunk is stamped where it comes off the upstream's socket, forwarded, then looked at, all in
that socket's callback.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import httpx
import orjson

from proxy import errors
from proxy.answer import Answer
from proxy.asking import Asker, Order
from proxy.client import Client
from proxy.connection import Clock
from proxy.errors import Failure
from proxy.exchange import Exchange
from proxy.formats import OTHER, interface
from proxy.formats.event import JSON, Interface
from proxy.formats.figures import in_head
from proxy.framing import EDGE_BYTES, media_type
from proxy.headers import Fields, to_client, to_upstream
from proxy.hold import Hold
from proxy.injection import Withdrawal
from proxy.jsontext import edges, is_heavy
from proxy.ledger import Ledger
from proxy.meter import Meter
from proxy.notices import place, say
from proxy.origin import Origins
from proxy.outcome import Outcome, left, verdict
from proxy.routing import Way, authority, route
from proxy.shortcut import shortcut
from proxy.template import Template
from proxy.tokens import Learning
from proxy.tunnel import carry


class Rules(NamedTuple):
    """Settings of the relay; times in seconds, sizes in bytes."""

    inject_usage: bool = True
    preserve_host: bool = False
    max_inspect_bytes: int = 64 << 20
    connect_timeout: float | None = 5.0
    idle_timeout: float | None = None
    stall_seconds: float = 2.0
    origins: Origins = Origins()


# Bodies that no interface of ours has as its JSON.
_OPAQUE = ("multipart/", "audio/", "image/", "video/", "application/octet-stream")


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
        self._asker = Asker(rules.inject_usage, rules.connect_timeout, rules.idle_timeout)
        self.draining = False

    async def __call__(self, client: Client) -> None:
        """Serve one request."""
        wall = self._wall()
        found = route(self._ways, client.target)
        if isinstance(found, Failure):
            self._ledger.refused(client.refused or found, client.fields, wall)
            _answer(client, found)
            return
        way, target = found
        path = target.partition(b"?")[0].decode("latin-1")
        face = interface(path) if client.method == "POST" else OTHER
        exchange = None
        try:
            body = await self._held(client, face)
            exchange = self._open(client, way, face, _json(face, body), path, wall)
            if client.gone:  # before this began
                raise asyncio.CancelledError
            await self._serve(client, exchange, way, target, body)
        except asyncio.CancelledError:
            exchange = exchange or self._open(client, way, face, {}, path, wall)
            if client.gone:
                _leave(exchange, client)
                if not client.status:
                    exchange.t_end = self._clock()
            else:  # by who lets this process end
                exchange.error = errors.DRAINING.code
            raise
        except Exception as mistake:
            say(f"{place(mistake)}, please report")
            if exchange is None:
                self._ledger.refused(errors.INTERNAL, client.fields, wall)
            else:
                exchange.error = errors.INTERNAL.code
                exchange.code = client.status or errors.INTERNAL.status
            if not client.status:
                _answer(client, errors.INTERNAL)
        finally:
            if exchange is not None:
                exchange.over_at = self._clock()
                self._ledger.end(exchange)

    def refused(self, failure: Failure) -> None:
        """The listener refused what was no request, or not one for us."""
        self._ledger.refused(failure, Fields(()), self._wall())

    # --- before the upstream --------------------------------------------------------------------

    async def _held(self, client: Client, face: Interface) -> bytes | None:
        """The request's body where it is to be read; None where it streams through."""
        if client.arrived:
            return client.body()
        kind = media_type(client.fields[b"content-type"])
        if face is OTHER or kind.startswith(_OPAQUE):
            return None
        length = client.fields[b"content-length"]
        if length.isdigit() and int(length) > self._rules.max_inspect_bytes:
            return None
        return client.body() if await client.collect(self._rules.max_inspect_bytes) else None

    def _open(
        self,
        client: Client,
        way: Way,
        face: Interface,
        body: dict[str, JSON],
        path: str,
        wall: float,
    ) -> Exchange:
        upstream = way.upstream.name
        call = face.call(body, path)
        exchange = Exchange(
            next(self._numbers),
            upstream,
            client.fields,
            f"{random.getrandbits(128):032x}",
            wall,
            call,
            face,
            self._learning.of(upstream, call.model),
            client.arrived or self._clock(),
            self._rules.stall_seconds,
            self._rules.origins.of(client.fields, body),
        )
        self._ledger.begin(exchange)
        return exchange

    # --- the upstream ---------------------------------------------------------------------------

    async def _serve(
        self, client: Client, exchange: Exchange, way: Way, target: bytes, body: bytes | None
    ) -> None:
        if self.draining:
            exchange.error = errors.DRAINING.code
            self._refuse(client, exchange, errors.DRAINING, Outcome.ABORTED)
            return
        host: bytes | None = way.upstream.authority.encode("ascii")
        if self._rules.preserve_host and client.fields[b"host"]:
            host = authority(client.target) or None
        order = Order(way, target, to_upstream(client.headers, host), body)
        name = way.upstream.name
        try:
            answer, withdrawal = await self._asker.ask(client, exchange, order)
        except httpx.TimeoutException as problem:
            exchange.error = str(problem)
            self._refuse(client, exchange, errors.timed_out(name, str(problem)), Outcome.TIMEOUT)
        except httpx.TransportError as problem:
            exchange.error = str(problem)
            failure = errors.unreachable(name, exchange.error)
            self._refuse(client, exchange, failure, Outcome.UNREACHABLE)
        else:
            try:
                await self._relay(client, exchange, answer, withdrawal)
            finally:
                await cast(httpx.AsyncByteStream, answer.stream).aclose()

    def _refuse(
        self, client: Client, exchange: Exchange, failure: Failure, outcome: Outcome
    ) -> None:
        """Answer for the upstream."""
        exchange.outcome = outcome
        exchange.t_end = self._clock()
        exchange.code = failure.status
        exchange.meter.stream = exchange.call.stream
        _answer(client, failure)

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
        fields = Fields(headers)
        kind, encoding, server = (
            fields[b"content-type"],
            fields[b"content-encoding"],
            fields[b"server"],
        )
        exchange.code = status
        exchange.answered = 200 <= status < 300
        exchange.t_end = response.extensions.get("arrived") or self._clock()
        meter.head(status, kind, encoding, exchange.t_end)
        if exchange.answered and (figures := in_head(fields)):
            meter.engine_says(figures)
        if exchange.answered:  # errors are often those of something between
            self._ledger.server(exchange.upstream, server)
        events = media_type(kind) == "text/event-stream"
        if not events or encoding not in ("", "identity"):
            withdrawal = None
        if status == 101:
            await self._tunnel(client, exchange, response)
            return
        passed = to_client(headers, events)
        if withdrawal is not None or status == 204:  # it will be shorter than the upstream says
            passed = [(n, v) for n, v in passed if n.lower() != b"content-length"]
        stream = response.stream
        assert isinstance(stream, Answer)
        # What came in one read goes in one write, unless some of it may have to be withdrawn.
        more = stream.begun and withdrawal is None
        client.start(status, response.extensions.get("reason_phrase", b""), passed, more)
        try:
            await self._pour(client, exchange, stream, withdrawal)
        except httpx.TransportError as problem:
            timeout = isinstance(problem, httpx.TimeoutException)
            broken = Outcome.TIMEOUT if timeout else Outcome.TRUNCATED
            exchange.outcome = Outcome.ERROR_MIDSTREAM if meter.error else broken
            exchange.error = str(problem)
            client.cut()
            return
        exchange.outcome = verdict(status, meter)
        if exchange.outcome is Outcome.TRUNCATED:
            lost = "a frame of the stream is damaged: its checksum or a length is wrong"
            exchange.error = lost if meter.broken else "the stream ended without its terminator"
        if withdrawal is not None and "llama.cpp" in server and meter.engine:
            self._asker.ask_no_more(exchange)  # it tells anyhow, and clients may want its timings

    async def _tunnel(self, client: Client, exchange: Exchange, response: httpx.Response) -> None:
        """The upstream took up the other protocol: bytes pass both ways until one side closes."""
        try:
            upstream, early = response.extensions["detach"]()
        except httpx.TransportError as problem:
            exchange.error = str(problem)
            failure = errors.unreachable(exchange.upstream, exchange.error)
            self._refuse(client, exchange, failure, Outcome.UNREACHABLE)
            return
        await carry(
            client, exchange, response, upstream, early, self._clock, self._rules.idle_timeout
        )

    async def _pour(
        self,
        client: Client,
        exchange: Exchange,
        stream: Answer,
        withdrawal: Withdrawal | None,
    ) -> None:
        """Forward the body, each read as it arrives, and look at it afterwards."""
        meter, ledger, clock = exchange.meter, self._ledger, self._clock
        overhead = ledger.overhead(exchange.upstream)
        write = client.write
        recognise, recognised = meter.recognise, meter.recognised
        expected: Template | None = None

        def moved(at: float) -> None:
            if not exchange.moved:  # one read of a stream in each batch of records is enough
                overhead.append(clock() - at)
                ledger.moved(exchange)

        def sink(data: bytes, at: float, framed: bytes | None) -> None:
            nonlocal expected
            exchange.t_end = at
            # The one look before forwarding: a read like those before has nothing to withdraw.
            characters = recognise(data)
            passed = data if characters or withdrawal is None else withdrawal.feed(data)
            write(passed, framed if passed is data else None)
            moved(at)
            if characters:
                recognised(characters, at)
                return
            _look(meter, meter.read, data, at)
            if meter.expects is not expected:
                expected = meter.expects
                way = expected and shortcut(expected, client, meter, clock, moved, stream.received)
                stream.shorten(way or None)

        hold = Hold(stream, exchange, ledger, clock)
        client.on_full(hold.begin, hold.end)
        try:
            await stream.pour(sink)
            exchange.t_end = stream.arrived or exchange.t_end
            if stream.by_close and meter.unfinished:  # nothing else tells a death from an end
                raise httpx.ReadError("closed by the upstream inside of the answer's JSON")
            if withdrawal is not None:
                write(withdrawal.end(), None)
            client.end()
            _look(meter, meter.end, exchange.t_end)
        finally:
            client.on_full(None, None)
            hold.end()


def _json(face: Interface, body: bytes | None) -> dict[str, JSON]:
    """The request's JSON, as far as it can be read."""
    parsed = None
    if face is not OTHER and body:
        if is_heavy(body):
            body = edges(body[:EDGE_BYTES], body[-EDGE_BYTES:])
        # What is no JSON is forwarded as it is: the upstream says what it thinks of it.
        with contextlib.suppress(orjson.JSONDecodeError):
            parsed = orjson.loads(body)
    return parsed if isinstance(parsed, dict) else {}


def _look(meter: Meter, read: Callable[..., None], *what: bytes | float) -> None:
    try:
        read(*what)
    except Exception as mistake:  # ours: the bytes are on their way all the same
        meter.give_up("malformed")
        say(f"{place(mistake)}, please report")


def _leave(exchange: Exchange, client: Client) -> None:
    """The client is gone: it left, took nothing, or what it sent was refused in the middle."""
    if (refused := client.refused) is None:
        exchange.outcome = left(exchange.meter)
        if exchange.outcome is Outcome.CLIENT_CLOSED:
            exchange.error = client.stuck
    else:
        exchange.error = refused.code
        exchange.code = exchange.code or refused.status


def _answer(client: Client, failure: Failure) -> None:
    """Send a failure of the proxy's own."""
    headers, body = failure.answer()
    client.start(failure.status, b"", headers)
    if client.method != "HEAD":
        client.write(body)
    client.end()
