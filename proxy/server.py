"""A worker's listening socket from its first connection to its last.

uvicorn's own server polls, ends connections that a successor could have taken over from, and
cannot be hurried.
"""

import asyncio
import contextlib
import math
import socket
import ssl
from typing import Protocol, cast

import uvicorn
from uvicorn.server import ServerState

from proxy.listener import ClientProtocol
from proxy.probes import probe

# The kernel lowers it to what it allows.
_BACKLOG = 4096
# For connections that were on their way when the kernel was told to send them to a successor.
_ACCEPT_SECONDS = 0.2
# For requests that are on their way on kept connections: an answer says that it is the last one.
_PART_SECONDS = 0.3
_LOOK_SECONDS = 0.02
# For a client to do its part when a TLS connection begins, and when it ends.
_HANDSHAKE_SECONDS = 10.0
_GOODBYE_SECONDS = 2.0
# What an exchange that was cut has to say shall still arrive.
_LAST_WORDS_SECONDS = 2.0


class Drained(Protocol):
    """What refuses new requests once it is told to (`relay.Relay`)."""

    draining: bool


class Server:
    """Serves one listening socket until `stop`, and then until its exchanges have ended.

    Args:
        config: of uvicorn, with the protocol's class; that of this server alone, since `parting`
            is set on it.
        tls: for clients; None for plain HTTP.
        drain_seconds: how long running exchanges may go on after `stop`.
        succeeded: another process takes what comes from now on, so that nobody needs to be refused.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        application: Drained,
        tls: ssl.SSLContext | None,
        drain_seconds: float,
        succeeded: bool,
    ) -> None:
        config.load()
        self.config = config
        self.state = ServerState()
        self._application = application
        self._tls = tls
        self._drain_seconds = drain_seconds
        self._succeeded = succeeded
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()

    def stop(self) -> None:
        """Take nothing new, and end when what is running has ended."""
        self._application.draining = not self._succeeded
        cast(type[ClientProtocol], self.config.http_protocol_class).parting = True
        for connection in self._connections():
            connection.part()
        self._stopping.set()

    def hurry(self) -> None:
        """Cut what is running, and end."""
        self.stop()
        self._hurried.set()

    async def serve(self, listener: socket.socket) -> None:
        """Until the last exchange has ended or was cut."""
        probe(listener)  # what it accepts inherits that
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._protocol,
            sock=listener,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._tls else None,
            ssl_shutdown_timeout=_GOODBYE_SECONDS if self._tls else None,
        )
        await self._stopping.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                await self._part(server)
        server.close()
        await self._cut()

    def _protocol(self) -> asyncio.Protocol:
        loop = asyncio.get_running_loop()
        return cast(type[ClientProtocol], self.config.http_protocol_class)(
            self.config, self.state, {}, loop
        )

    async def _part(self, server: asyncio.AbstractServer) -> None:
        """Wait until no connection is left."""
        if self._succeeded:
            await self._pause(_ACCEPT_SECONDS)
        server.close()
        await self._empty(_PART_SECONDS)
        self._application.draining = True
        for connection in self._connections():
            connection.shutdown()
        await self._empty(math.inf)

    async def _empty(self, seconds: float) -> None:
        """Wait until no connection is left, so long at most, in a hurry not at all."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.state.connections and loop.time() < deadline and not self._hurried.is_set():
            await self._pause(_LOOK_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), seconds)

    def _connections(self) -> list[ClientProtocol]:
        return cast(list[ClientProtocol], list(self.state.connections))

    async def _cut(self) -> None:
        tasks = set(self.state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS_SECONDS)
        for connection in self._connections():
            connection.transport.abort()
