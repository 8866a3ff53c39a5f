"""Requests of the proxy's own to an upstream: what no client has asked for."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import httpx
import orjson

from proxy import __version__
from proxy.address import Upstream
from proxy.answer import Answer
from proxy.facts import Reply
from proxy.headers import Fields, Pair

# Takes bytes of a body and their arrival, seconds of the transport's clock.
Sink = Callable[[bytes, float], None]

_MOST_BYTES = 4 << 20  # of an answer: more than the longest list of models


class TooLong(Exception):
    """An answer is longer than any that we ask for."""

    def __str__(self) -> str:
        return "an answer is too long"


class Caller:
    """Sends requests to one upstream.

    Redirects are not followed, and of an answer no more than 4 MiB is taken.

    Args:
        headers: sent with each request, beside those that HTTP needs.
    """

    def __init__(
        self, upstream: Upstream, transport: httpx.AsyncBaseTransport, headers: Sequence[Pair] = ()
    ) -> None:
        self._transport = transport
        self._url = httpx.URL(upstream.origin)
        self._base = upstream.base
        self._headers = [
            (b"Host", upstream.authority.encode("ascii")),
            (b"User-Agent", b"tokometer/%b" % __version__.encode("ascii")),
            (b"Accept-Encoding", b"identity"),
            *headers,
        ]

    async def get(self, path: str, seconds: float) -> Reply:
        """The answer to a GET. Raises: httpx.TransportError, TimeoutError, TooLong."""
        async with asyncio.timeout(seconds):
            response = await self._send("GET", path, [], b"")
            pieces: list[bytes] = []
            await pour(response, lambda data, _: pieces.append(data))
        server = Fields(response.headers.raw)[b"server"]
        return Reply(response.status_code, server, _json(b"".join(pieces)))

    async def post(self, path: str, body: bytes, headers: Sequence[Pair] = ()) -> httpx.Response:
        """The answer to JSON, as soon as its head is there; to be given to `pour`.

        Raises: httpx.TransportError.
        """
        length = str(len(body)).encode("ascii")
        framing = [(b"Content-Type", b"application/json"), (b"Content-Length", length)]
        return await self._send("POST", path, [*headers, *framing], body)

    async def _send(
        self, method: str, path: str, headers: Sequence[Pair], body: bytes
    ) -> httpx.Response:
        request = httpx.Request(
            method,
            self._url,
            headers=[*self._headers, *headers],
            stream=httpx.ByteStream(body),
            extensions={"target": self._target(path)},
        )
        return await self._transport.handle_async_request(request)

    def _target(self, path: str) -> bytes:
        """Some set the version's path as part of the upstream's."""
        if self._base.endswith("/v1"):
            path = path.removeprefix("/v1")
        return f"{self._base}{path}".encode("ascii")


async def pour(response: httpx.Response, sink: Sink) -> None:
    """Hands each read of a body to `sink` with its arrival, and gives the connection back.

    Raises: httpx.TransportError, TooLong.
    """
    size = 0

    def take(data: bytes, at: float, framed: bytes | None) -> None:
        nonlocal size
        size += len(data)
        if size > _MOST_BYTES:
            raise TooLong
        sink(data, at)

    answer = cast(Answer, response.stream)
    try:
        await answer.pour(take)
    finally:
        await answer.aclose()


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
