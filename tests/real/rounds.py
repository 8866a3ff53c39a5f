"""One round: streams of one interface, our log lines of them, the engine's counters around them."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from .clients import FAILURES, Ask, Call, Clients, Told
from .engines import Counters, Engine, moved_between, read_counters

STREAMS = 20
ABANDONED = 8
LEAVE_AFTER = (5, 60)  # events with output
LOG_SECONDS = 10.0  # for the last line of a round to be written
QUIET_SECONDS = 0.4  # many times the time per token of both engines
SETTLE_SECONDS = 30.0
WATCH_SECONDS = 0.005

TOPICS = ("the sea", "a lighthouse", "bread", "the night train", "a clockmaker", "winter", "bees")

Line = dict[str, Any]


@dataclass(frozen=True)
class Round:
    """`told[i]` and `lines[i]` are the same stream, as the client and as the log saw it.

    `held_up` is the longest time, in seconds, that this process could not run though it wanted
    to: as long may the proxy have waited, and the engine too.
    """

    interface: str
    concurrency: int
    told: list[Told]
    lines: list[Line]
    moved: Counters
    held_up: float


@dataclass(frozen=True)
class Abandoned:
    """One stream that the client left, and what the engine generated for it."""

    interface: str
    leave_after: int
    line: Line
    engine_tokens: float


@dataclass(frozen=True)
class Bench:
    """A running engine behind a running proxy."""

    engine: Engine
    engine_url: str
    log: Path
    clients: Clients
    http: httpx.AsyncClient

    async def counters(self) -> Counters:
        """The engine's counters once it has nothing left to do."""
        url = f"{self.engine_url}/metrics"
        deadline = time.monotonic() + SETTLE_SECONDS
        before = await read_counters(self.http, url)
        while time.monotonic() < deadline:
            await asyncio.sleep(QUIET_SECONDS)
            after = await read_counters(self.http, url)
            if after[self.engine.output_counter] == before[self.engine.output_counter]:
                return after
            before = after
        raise SystemExit(f"{self.engine.name} still generates after {SETTLE_SECONDS:.0f} s")

    async def measure(self, interface: str, concurrency: int) -> Round:
        asks = self.spread(f"{interface}-{concurrency}", STREAMS)
        before = await self.counters()
        with watching_hold_ups() as held_up:
            told = await at_once(self.engine.interfaces[interface], self.clients, asks, concurrency)
        lines = await self.lines([ask.request_id for ask in asks])
        moved = moved_between(before, await self.counters())
        return Round(interface, concurrency, told, lines, moved, max(held_up))

    async def warm_up(self, interface: str) -> None:
        """First requests pay for caches and connections on all sides; nobody compares them."""
        asks = self.spread(f"{interface}-warm", 4)
        await at_once(self.engine.interfaces[interface], self.clients, asks, 2)

    async def abandon(self, interface: str) -> list[Abandoned]:
        """Streams that the client leaves, one after the other, so that each can be counted."""
        call = self.engine.interfaces[interface]
        first, last = LEAVE_AFTER
        left = []
        for number in range(ABANDONED):
            after = first + (last - first) * number // (ABANDONED - 1)
            ask = Ask(f"{interface}-left-{number}", prompt(number), 1000, number % 2 == 0, after)
            before = (await self.counters())[self.engine.output_counter]
            await attempt(call, self.clients, ask)
            generated = (await self.counters())[self.engine.output_counter] - before
            (line,) = await self.lines([ask.request_id])
            left.append(Abandoned(interface, after, line, generated))
        return left

    def spread(self, name: str, streams: int) -> list[Ask]:
        """Streams of different lengths; every second client does not ask for usage."""
        shortest, longest = self.engine.max_tokens
        step = (longest - shortest) / streams
        return [
            Ask(
                f"{name}-{number}", prompt(number), round(shortest + step * number), number % 2 == 0
            )
            for number in range(streams)
        ]

    async def lines(self, request_ids: Sequence[str]) -> list[Line]:
        """The log lines of these requests in this order, waited for; a line that never comes
        has nothing but its request id.
        """
        deadline = time.monotonic() + LOG_SECONDS
        while True:
            found = {line.get("request_id"): line for line in read_log(self.log)}
            if found.keys() >= set(request_ids) or time.monotonic() > deadline:
                return [found.get(one, {"request_id": one}) for one in request_ids]
            await asyncio.sleep(0.1)


@contextmanager
def watching_hold_ups() -> Iterator[list[float]]:
    """Hold-ups of this process within the block, in seconds."""
    held_up = [0.0]

    async def watch() -> None:
        while True:
            due = time.monotonic() + WATCH_SECONDS
            await asyncio.sleep(WATCH_SECONDS)
            held_up.append(time.monotonic() - due)

    watcher = asyncio.ensure_future(watch())
    try:
        yield held_up
    finally:
        watcher.cancel()


def prompt(number: int) -> str:
    """Prompts of different lengths, none a beginning of another."""
    topic = TOPICS[number % len(TOPICS)]
    details = " It must be vivid and slow." * (number % 4)
    return f"{number}. Write a very long story about {topic}.{details}"


async def attempt(call: Call, clients: Clients, ask: Ask) -> Told:
    """A failed stream is a result too: the others go on and the log says how it was counted."""
    try:
        return await call(clients, ask)
    except FAILURES as failure:
        return Told(ask.request_id, failure=repr(failure))


async def at_once(
    call: Call, clients: Clients, asks: Sequence[Ask], concurrency: int
) -> list[Told]:
    """All `asks`, `concurrency` at any time."""
    slots = asyncio.Semaphore(concurrency)

    async def one(ask: Ask) -> Told:
        async with slots:
            return await attempt(call, clients, ask)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(ask)) for ask in asks]
    return [task.result() for task in tasks]


def read_log(path: Path) -> Iterator[Line]:
    """The complete lines; the last one may still be being written."""
    if path.exists():
        text = path.read_text()
        yield from map(json.loads, text[: text.rfind("\n") + 1].splitlines())
