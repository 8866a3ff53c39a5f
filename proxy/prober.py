"""Whether an upstream is well, and what it is: asked on a timer, told to the keeper."""

import asyncio
import contextlib
import math
import ssl

import httpx

from proxy.address import Upstream
from proxy.caller import Caller
from proxy.channel import Probed
from proxy.connection import Clock
from proxy.scouting import Scouting
from proxy.survey import FAILURES, Survey

# Of each answer: they are small.
_MOST_SECONDS = 5.0
# How old may be what is known of an upstream, and that nothing is.
_STALE_SECONDS = 60.0
_MUTE_SECONDS = 600.0


class Prober:
    """Probes one upstream.

    Args:
        tls: for connections on which nothing is asked; None where the upstream is not https.
    """

    def __init__(
        self,
        upstream: Upstream,
        settings: Scouting,
        transport: httpx.AsyncBaseTransport,
        tls: ssl.SSLContext | None,
        clock: Clock,
    ) -> None:
        self._upstream = upstream
        self._tls = tls
        self._clock = clock
        self._asks = settings.asks(upstream.scheme)
        self._seconds = min(settings.probe_interval or math.inf, _MOST_SECONDS)
        self._survey = Survey(Caller(upstream, transport), self._seconds)
        # When it was last asked what it is, and everything; since then it was well.
        self._surveyed = self._afresh = -math.inf

    async def probe(self) -> Probed:
        """Ask once, in a bounded time, and never raise for what the upstream does."""
        record: Probed = {"kind": "probed", "upstream": self._upstream.name, "up": False}
        with contextlib.suppress(*FAILURES):
            if self._asks:
                await self._ask(record)
            else:
                await self._connect()
            record["up"] = True
            return record
        self._surveyed = self._afresh = -math.inf  # who comes back may be another one
        return record

    async def _ask(self, record: Probed) -> None:
        now = self._clock()
        if now - self._surveyed >= _STALE_SECONDS:
            afresh = now - self._afresh >= _MUTE_SECONDS
            facts = await self._survey.facts(afresh=afresh)
            record["engine"], record["version"] = facts.engine, facts.version
            record["models"] = list(facts.models)
            self._surveyed = now
            self._afresh = now if afresh else self._afresh
        await self._survey.health()

    async def _connect(self) -> None:
        async with asyncio.timeout(self._seconds):
            if self._upstream.socket:
                _, writer = await asyncio.open_unix_connection(self._upstream.socket)
            else:
                _, writer = await asyncio.open_connection(
                    self._upstream.host, self._upstream.port, ssl=self._tls
                )
        writer.transport.abort()
