"""Exchanges with inference servers: httpx's transport interface over a pool of connections.

httpx's own transport spends ten times as much on a chunk and knows no arrival times. Requests,
answers, errors and the seam are httpx's, so that another transport can be put in.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from proxy.answer import Answer
from proxy.connection import Clock, Connection, StaleConnection
from proxy.dialing import Address, connected, dial, knock, literal

# Errors that are no fault of the upstream's.
_OURS = (errno.EMFILE, errno.ENFILE)
# Names may stand for other addresses by then; a busy connection would never see it.
_MAX_AGE_SECONDS = 300.0

Origin = tuple[str, str, int]  # scheme, host, port


class Transport(httpx.AsyncBaseTransport):
    """A pool of connections behind httpx's transport interface.

    Request extensions: `method` and `target` (bytes, as they came; `target` as in httpcore),
    `timeout` (`{"connect": seconds, "read": seconds}`, None or absent for none), `inform`
    (`answer.Inform`), `offer` (whether a 101 may come). The answer's: `reason_phrase`, `arrived`,
    `detach` (`Connection.detach`, for behind a 101).

    Args:
        keepalive: seconds after which an idle connection is dropped.
        tls: for https; None for the system's trust.
        connected: called with the seconds that each new connection took, or None if it failed.
        unix: path of the Unix socket that takes the place of host and port; empty for none.
    """

    def __init__(
        self,
        clock: Clock,
        keepalive: float,
        tls: ssl.SSLContext | None = None,
        connected: Callable[[float | None], None] = lambda seconds: None,
        unix: str = "",
    ) -> None:
        self._clock = clock
        self._keepalive = keepalive
        self._tls = tls
        self._connected = connected
        self._unix = unix
        self._literal: dict[tuple[str, int], Address | None] = {}
        self._idle: dict[Origin, list[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, return its answer as soon as the head is there.

        Raises: httpx.TransportError.
        """
        origin = _origin(request)
        if not isinstance(request.stream, httpx.ByteStream):
            return await self._exchange(request, origin, None)  # it cannot be sent twice
        try:
            return await self._exchange(request, origin, self._take(origin))
        except StaleConnection:
            return await self._exchange(request, origin, None)

    async def _exchange(
        self, request: httpx.Request, origin: Origin, connection: Connection | None
    ) -> httpx.Response:
        timeout: dict[str, Any] = request.extensions.get("timeout", {})
        inform, offer = (request.extensions.get(key) for key in ("inform", "offer"))
        head, headless = _head(request), _method(request) == b"HEAD"
        body = b"".join(request.stream) if isinstance(request.stream, httpx.ByteStream) else None
        # The fewer the steps from connecting to asking, the less often the upstream wakes for it.
        fresh = connection is None
        connection = connection or Connection(self._clock)
        answer = Answer(
            connection, partial(self._release, origin, connection), inform, switches=offer or b""
        )
        try:
            if fresh:
                await self._connect(connection, origin, timeout.get("connect"))
            if body is None:
                upload = asyncio.get_running_loop().create_task(_upload(request, connection))
                answer.owns(upload)
            await connection.ask(head, body or b"", answer, headless, timeout.get("read"))
        except BaseException:
            answer.close()
            raise
        return httpx.Response(
            connection.incoming.status,
            headers=connection.incoming.headers,
            stream=answer,
            extensions={
                "reason_phrase": connection.incoming.reason,
                "arrived": connection.head_at,
                "detach": connection.detach,
            },
        )

    async def _connect(self, connection: Connection, origin: Origin, limit: float | None) -> None:
        began = self._clock()
        try:
            await self._dial(connection, *origin, limit)
        except TimeoutError:  # ours, or the system's
            self._connected(None)
            why = f"no connection within {limit:g} s" if limit else "no connection"
            raise httpx.ConnectTimeout(why) from None
        except (OSError, ssl.SSLError, UnicodeError) as problem:
            if getattr(problem, "errno", None) not in _OURS:
                self._connected(None)
            raise httpx.ConnectError(_reason(problem)) from None
        asyncio.get_running_loop().call_soon(self._connected, self._clock() - began)

    async def _dial(
        self, connection: Connection, scheme: str, host: str, port: int, limit: float | None
    ) -> None:
        address = self._address(host, port)
        sock, there = knock(address) if address is not None else (None, False)
        if sock is not None and there and scheme == "http":
            connection.begin(sock)
            return
        try:
            await asyncio.sleep(0)  # only a task can have a time limit (see `eager`)
            async with asyncio.timeout(limit):
                if sock is None:
                    sock = await dial(host, port)
                elif not there:
                    await connected(sock)
                if scheme == "https":
                    given, sock = sock, None
                    await self._secure(connection, given, host)
                else:
                    connection.begin(sock)
        except BaseException:
            if sock is not None:
                sock.close()
            raise

    async def _secure(self, connection: Connection, sock: socket.socket, host: str) -> None:
        tls = self._tls = self._tls or ssl.create_default_context()
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection, sock=sock, ssl=tls, server_hostname=host
            )
        except BaseException:
            sock.detach()  # what it was is closed: see `Early.attach`
            raise

    def _address(self, host: str, port: int) -> Address | None:
        """Where to connect to; None where that has to be resolved."""
        if self._unix:
            return socket.AF_UNIX, self._unix
        if (host, port) not in self._literal:
            self._literal[host, port] = literal(host, port)
        return self._literal[host, port]

    # --- the pool -------------------------------------------------------------------------------

    def _take(self, origin: Origin) -> Connection | None:
        """The connection that rested least, if any is still good."""
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if not connection.lost and self._clock() - connection.idle_since < self._keepalive:
                return connection
            connection.cut()
        return None

    def _release(self, origin: Origin, connection: Connection) -> None:
        if not connection.rest():
            return
        connection.idle_since = self._clock()
        if connection.idle_since - connection.made_at > _MAX_AGE_SECONDS:
            connection.cut()
            return
        self._idle.setdefault(origin, []).append(connection)
        if self._sweeper is None:
            self._sweep_in(self._keepalive)

    def _sweep_in(self, seconds: float) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        """Drop what has rested too long; the server would do so soon."""
        oldest = self._clock() - self._keepalive
        self._sweeper = None
        for idle in self._idle.values():
            for connection in [c for c in idle if c.lost or c.idle_since <= oldest]:
                idle.remove(connection)
                connection.cut()
        if since := [connection.idle_since for idle in self._idle.values() for connection in idle]:
            self._sweep_in(min(since) - oldest)

    async def aclose(self) -> None:
        """Drop all idle connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for idle in self._idle.values():
            for connection in idle:
                connection.cut()
        self._idle.clear()


def _reason(problem: Exception) -> str:
    """Why there is no connection, for clients: addresses inside are not theirs to know."""
    if getattr(problem, "errno", None) in _OURS:
        return "this proxy has no descriptors left: raise its limit (ulimit -n)"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {problem.verify_message.partition(',')[0]}"
    if isinstance(problem, ssl.SSLError):
        return f"TLS failed ({problem.reason or type(problem).__name__})"
    if isinstance(problem, socket.gaierror | UnicodeError):
        return "its name cannot be resolved"
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)
    return "no connection"


def _origin(request: httpx.Request) -> Origin:
    url = request.url
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _method(request: httpx.Request) -> bytes:
    """As it came: httpx makes capitals of it, though methods are told apart by their case."""
    method: bytes = request.extensions.get("method") or request.method.encode("ascii")
    return method


def _head(request: httpx.Request) -> bytes:
    target = request.extensions.get("target", request.url.raw_path)
    lines = [b"%b %b HTTP/1.1\r\n" % (_method(request), target)]
    lines += [b"%b: %b\r\n" % pair for pair in request.headers.raw]
    lines.append(b"\r\n")
    return b"".join(lines)


async def _upload(request: httpx.Request, connection: Connection) -> None:
    """Send a body that is still on its way, in chunks unless its length is known."""
    chunked = "transfer-encoding" in request.headers
    assert isinstance(request.stream, httpx.AsyncByteStream)
    async for data in request.stream:
        if data:
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            await connection.drain()
    if chunked:
        connection.write(b"0\r\n\r\n")
