"""The proxy's side as a client: a request goes to its upstream, with usage asked for if need be."""

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import httpx

from proxy.client import Client
from proxy.exchange import Exchange
from proxy.headers import Fields, Pair, identity_only, to_client
from proxy.injection import Withdrawal, ask_usage
from proxy.routing import Way

_MAX_REMEMBERED = 1000


class Order(NamedTuple):
    """A request as it goes to the upstream; `body` is None where it streams through."""

    way: Way
    target: bytes
    headers: list[Pair]
    body: bytes | None


class Asker:
    """Sends requests to upstreams.

    Args:
        inject_usage: ask for token counts where the client did not.
        connect_timeout, idle_timeout: seconds, None for no limit.
    """

    def __init__(
        self, inject_usage: bool, connect_timeout: float | None, idle_timeout: float | None
    ) -> None:
        self._inject_usage = inject_usage
        self._timeout = {"connect": connect_timeout, "read": idle_timeout}
        self._never_ask: set[tuple[str, str | None]] = set()  # upstream, model
        self._urls: dict[str, httpx.URL] = {}

    async def ask(
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
            self.ask_no_more(exchange)
        return answer, None

    def _with_usage(self, exchange: Exchange, order: Order) -> Order | None:
        call = exchange.call
        wanted = self._inject_usage and call.stream and call.can_ask_usage
        if not wanted or call.asks_usage or (exchange.upstream, call.model) in self._never_ask:
            return None
        body = ask_usage(order.body) if order.body else None
        return (body and order._replace(body=body, headers=identity_only(order.headers))) or None

    def _url(self, way: Way) -> httpx.URL:
        name = way.upstream.name
        if name not in self._urls:
            self._urls[name] = httpx.URL(way.upstream.origin)
        return self._urls[name]

    def ask_no_more(self, exchange: Exchange) -> None:
        """Its upstream and model are not asked for usage again."""
        if len(self._never_ask) >= _MAX_REMEMBERED:  # names come from clients
            self._never_ask.clear()
        self._never_ask.add((exchange.upstream, exchange.call.model))

    async def _send(self, client: Client, exchange: Exchange, order: Order) -> httpx.Response:
        """Send a request; the answer as soon as its head is there."""
        headers = order.headers
        if client.offer:
            headers = [*headers, (b"Connection", b"Upgrade"), (b"Upgrade", client.offer)]
        stream: httpx.AsyncByteStream
        if order.body is None:
            headers = [*headers, _framing(client.fields)]
            if client.defer():
                headers.append((b"Expect", b"100-continue"))
            stream = Upload(client, exchange)
        else:
            if order.body or client.method in ("POST", "PUT", "PATCH"):
                headers = [*headers, (b"Content-Length", b"%d" % len(order.body))]
            stream = httpx.ByteStream(order.body)
        request = httpx.Request(
            client.method,
            self._url(order.way),
            headers=headers,
            stream=stream,
            extensions={
                "method": client.method.encode("ascii"),
                "target": order.target,
                "offer": client.offer,
                "inform": partial(_inform, client),
                "timeout": self._timeout,
            },
        )
        return await order.way.transport.handle_async_request(request)


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


def _inform(client: Client, status: int, reason: bytes, headers: list[Pair]) -> None:
    """An interim answer has come. It has no body, whatever it says."""
    passed = to_client(headers, event_stream=False)
    client.inform(status, reason, [p for p in passed if p[0].lower() != b"content-length"])


def _framing(fields: Fields) -> Pair:
    """How a body that streams through is framed: as it came."""
    length = fields[b"content-length"]
    if length:
        return b"Content-Length", length.encode("latin-1")
    return b"Transfer-Encoding", b"chunked"
