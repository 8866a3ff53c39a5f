"""Many small requests that are not streamed, on kept connections or on new ones."""

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

from .site import Costs, Sample, Site, costs, shares
from .streams import percentile
from .traffic import CHAT, CLOCK, chat_body, post

_WARM_SECONDS = 0.3
_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class RequestLoad:
    """Requests from `lanes` clients at a time.

    Args:
        rate: requests a second of all of them; None: each asks again as soon as it is answered.
        kept: one connection for all requests of a lane, else a new one for each.
    """

    lanes: int
    rate: float | None
    seconds: float
    kept: bool

    @property
    def name(self) -> str:
        """Such as `500/s kept`."""
        pace = f"{self.rate:g}/s" if self.rate else f"{self.lanes} at once"
        return f"{pace}, {'kept' if self.kept else 'new'}"


@dataclass
class Tally:
    """Answers while it is on."""

    on: bool = False
    over: bool = False
    failed: int = 0
    latencies: "array[int]" = field(default_factory=lambda: array("q"))  # nanoseconds


class Lane(asyncio.Protocol):
    """One client: a request, its answer, the next request."""

    def __init__(self, port: int, load: RequestLoad, tally: Tally, number: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._load = load
        self._tally = tally
        close = {} if load.kept else {"Connection": "close"}
        self._request = post(CHAT, chat_body(stream=False), close)
        self._interval = load.lanes / load.rate if load.rate else 0.0
        self._due = self._loop.time() + self._interval * number / load.lanes
        self._transport: asyncio.Transport | None = None
        self._answered = True
        self._connecting: asyncio.Task[object] | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_at(self._due, self._ask)

    def _ask(self) -> None:
        if self._tally.over:
            self.close()
            return
        self._sent = CLOCK()
        self._answered = False
        if self._transport is not None:
            self._transport.write(self._request)
        else:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            self._lost()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            cast(asyncio.Transport, self._transport).abort()

    def on_message_complete(self) -> None:
        tally = self._tally
        self._answered = True
        if self._parser.get_status_code() != 200:
            tally.failed += 1
        elif tally.on:
            tally.latencies.append(CLOCK() - self._sent)
        if self._load.kept and self._parser.should_keep_alive():
            self._next()
        else:
            cast(asyncio.Transport, self._transport).close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._answered:
            self._lost()
        elif not self.done.done():
            self._next()

    def _lost(self) -> None:
        self._tally.failed += 1
        self._answered = True
        self._loop.call_later(0.01, self._ask)

    def _next(self) -> None:
        self._due += self._interval
        if self._interval:
            self._loop.call_at(self._due, self._ask)
        else:
            self._loop.call_soon(self._ask)

    def close(self) -> None:
        """No more requests."""
        if not self.done.done():
            self.done.set_result(None)
        if self._transport is not None:
            self._transport.abort()


@dataclass
class RequestRun:
    """What came of a load."""

    tally: Tally
    seconds: float
    before: Costs
    after: Costs


async def _run(port: int, load: RequestLoad, probe: Callable[[], Costs]) -> RequestRun:
    tally = Tally()
    loop = asyncio.get_running_loop()
    lanes = [Lane(port, load, tally, number) for number in range(load.lanes)]
    await asyncio.sleep(_WARM_SECONDS)
    before, since = probe(), loop.time()
    tally.on = True
    await asyncio.sleep(load.seconds)
    tally.on, tally.over = False, True
    seconds, after = loop.time() - since, probe()
    await asyncio.wait([lane.done for lane in lanes], timeout=_GRACE_SECONDS)
    for lane in lanes:
        lane.close()
    return RequestRun(tally, seconds, before, after)


def measure_requests(site: Site, load: RequestLoad) -> Sample:
    """One load on one proxy. Latencies in microseconds."""
    run = uvloop.run(_run(site.port, load, lambda: costs(site)))
    latencies = [latency / 1e3 for latency in run.tally.latencies]
    return {
        **shares(run.before, run.after, len(latencies), run.seconds, "request"),
        "latency_p50_us": percentile(latencies, 0.5),
        "latency_p99_us": percentile(latencies, 0.99),
        "requests_per_second": len(latencies) / run.seconds,
        "failed": run.tally.failed,
    }
