"""A connection that has changed its protocol, such as a WebSocket: bytes both ways, unread."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

import httpx

from proxy.client import Client
from proxy.connection import Clock
from proxy.exchange import Exchange
from proxy.flow import Flow
from proxy.headers import to_client
from proxy.outcome import Outcome
from proxy.stuck import Stuck

# For what is written already; who takes nothing shall not hold the connection open.
_CLOSE_SECONDS = 5.0


class Finish(NamedTuple):
    """How a tunnel ended, and why if that was no orderly end."""

    outcome: Outcome
    error: str | None = None


class End(asyncio.Protocol):
    """One end of a tunnel: what comes in here goes out at the other.

    Args:
        broken: the outcome when this end breaks off.
        closed: called when the connection is gone.
    """

    def __init__(
        self,
        tunnel: "Tunnel",
        name: str,
        broken: Outcome,
        closed: Callable[[Exception | None], None] = lambda problem: None,
    ) -> None:
        self._tunnel = tunnel
        self._name = name
        self._broken = broken
        self._closed = closed
        self.received = 0
        self.other: End
        self.transport: asyncio.Transport
        self.flow: Flow
        self._stuck: Stuck | None = None

    def take(self, transport: asyncio.BaseTransport, early: bytes = b"") -> None:
        """From now on this is the transport's protocol; `early` has come before."""
        self.transport = cast(asyncio.Transport, transport)
        self.flow = Flow(self.transport)
        self.transport.set_protocol(self)
        if early:
            self.data_received(early)

    def limit(self, clock: Clock, seconds: float) -> None:
        """How long this end may take nothing of what waits for it."""

        def stuck() -> None:
            why = f"the {self._name} took nothing for {seconds:g} s"
            self._tunnel.finish(Finish(self._broken, why))

        self._stuck = Stuck(self.transport, clock, seconds, stuck)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._tunnel.moved()
        self.other.transport.write(data)

    def eof_received(self) -> None:
        self._tunnel.finish(Finish(Outcome.COMPLETED))

    def connection_lost(self, exc: Exception | None) -> None:
        self.flow.stop()
        self._tunnel.finish(Finish(self._broken, f"reset by the {self._name}"))
        self._closed(exc)

    def pause_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.begin()
        if not self.other.transport.is_closing():
            self.other.flow.pause_reading()

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.end()
        if not self.other.transport.is_closing():
            self.other.flow.resume_reading()

    def close(self) -> None:
        """After what is written, or soon."""
        self.flow.stop()
        if self._stuck is not None:
            self._stuck.end()
            self._stuck = None
        self.transport.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.transport.abort)


class Tunnel:
    """Two ends; when one closes, so does the other.

    Args:
        idle: seconds without a byte, either way, after which it is cut; None for no limit.
        closed: called when the client's connection is gone.
    """

    def __init__(
        self, clock: Clock, idle: float | None, closed: Callable[[Exception | None], None]
    ) -> None:
        self._clock = clock
        self._active = clock()
        self._timer: asyncio.TimerHandle | None = None
        self._finish: asyncio.Future[Finish] = asyncio.get_running_loop().create_future()
        self.client = End(self, "client", Outcome.CLIENT_CLOSED, closed)
        self.upstream = End(self, "upstream", Outcome.TRUNCATED)
        self.client.other, self.upstream.other = self.upstream, self.client
        if idle is not None:
            self._watch(idle)

    async def run(self) -> Finish:
        """Wait for the end. A cancellation cuts both connections."""
        try:
            return await self._finish
        except asyncio.CancelledError:
            self.client.transport.abort()
            self.upstream.transport.abort()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def moved(self) -> None:
        """A byte came."""
        self._active = self._clock()

    def finish(self, finish: Finish) -> None:
        """It is over; the first word counts."""
        if not self._finish.done():
            self._finish.set_result(finish)
            self.client.close()
            self.upstream.close()

    def _watch(self, idle: float) -> None:
        left = self._active + idle - self._clock()
        if left <= 0:
            self.finish(Finish(Outcome.TIMEOUT, f"nothing came for {idle:g} s"))
        else:
            self._timer = asyncio.get_running_loop().call_later(left, self._watch, idle)


async def carry(
    client: Client,
    exchange: Exchange,
    answer: httpx.Response,
    upstream: asyncio.Transport,
    early: bytes,
    clock: Clock,
    idle: float | None,
) -> None:
    """From the head of a 101 to the end of what follows it.

    Args:
        upstream, early: the connection that the answer came over, and what came behind its head.
        idle: as in `Tunnel`.
    """
    # No 1xx has a body (RFC 9110, 6.4.1), whatever it says of its length.
    pairs = [pair for pair in answer.headers.raw if pair[0].lower() != b"content-length"]
    upgrade = [pair for pair in pairs if pair[0].lower() == b"upgrade"]
    passed = [*to_client(pairs, event_stream=False), (b"Connection", b"Upgrade"), *upgrade]
    tunnel = Tunnel(clock, idle, client.lost)
    tunnel.client.take(client.switch(answer.extensions["reason_phrase"], passed))
    if client.send_limit is not None:
        tunnel.client.limit(clock, client.send_limit)
    tunnel.upstream.take(upstream, early)
    try:
        exchange.outcome, exchange.error = await tunnel.run()
    finally:
        client.response_complete = True
        exchange.t_end = clock()
        exchange.received_bytes = tunnel.client.received
        exchange.sent_bytes = tunnel.upstream.received
