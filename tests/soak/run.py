"""The soak from start to end."""

import asyncio
import platform
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from .accounts import Accounts
from .engine import listen
from .guests import Guest, moods
from .moods import FAULTS, RARE
from .processes import KEEPALIVE, Level, Proxy, eventually

GUESTS = 32
IDLE_TIMEOUT = 5.0  # seconds; of a mood that is rare, and longer than a busy machine takes
PART = 50_000  # exchanges, after which the log is turned
MEMORY = 1.10  # the last level may be so many times the first


@dataclass
class Report:
    """What came of it; `problems` is empty when all is well."""

    exchanges: int
    seconds: float
    counted: int
    lines: int
    sent: Counter[str]
    levels: list[dict[str, Level]]  # of the processes by title, early and then part by part
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """For people, in Markdown."""
        faults = sum(self.sent[name] for name in (*FAULTS, *RARE))
        rows = [f"| {name} | {self.sent[name]:,} |" for name in (*FAULTS, *RARE)]
        levels = [
            f"| {title} | {_each(self.levels, title, 'memory')} | "
            f"{_each(self.levels, title, 'descriptors')} |"
            for title in self.levels[0]
        ]
        return "\n".join(
            [
                f"{datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.release()}, "
                f"Python {platform.python_version()}: {self.exchanges:,} exchanges, {faults:,} of "
                f"them with a fault, in {self.seconds:,.0f} s; {self.counted:,} counted, "
                f"{self.lines:,} lines in the log.",
                "",
                "| fault | exchanges |",
                "|---|---|",
                *rows,
                "",
                "| process | resident KiB, early and then part by part | descriptors |",
                "|---|---|---|",
                *levels,
                "",
                *(self.problems or ["Nothing is missing, nothing is left."]),
            ]
        )


def _each(levels: list[dict[str, Level]], title: str, what: str) -> str:
    return ", ".join(f"{getattr(level[title], what):,}" for level in levels if title in level)


def soak(exchanges: int, warm: int, seed: int = 1) -> Report:
    """Run so many exchanges through a proxy of its own.

    `warm`: after so many of them all processes should hold what they ever will.
    """
    return uvloop.run(_soak(exchanges, warm, seed))


async def _soak(exchanges: int, warm: int, seed: int) -> Report:
    mistakes: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: mistakes.append(str(context.get("exception") or context["message"]))
    )
    server, port = await listen()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))  # taken, and not listened at
        proxy = await asyncio.to_thread(
            Proxy, port, dead.getsockname()[1], Path(folder), IDLE_TIMEOUT
        )
        run = Run(proxy, seed)
        try:
            report = await run.play(exchanges, warm)
        finally:
            code = await asyncio.to_thread(proxy.end)
            server.close()
        report.problems += [f"mistake of ours: {mistake}" for mistake in mistakes[:5]]
        if code:
            report.problems.append(f"the proxy ended with {code}")
        if len(said := proxy.said().splitlines()) > 1:
            report.problems += ["the proxy said:", *said[1:10]]
        return report


class Run:
    """Guests before a proxy, and the accounts of what they asked for."""

    def __init__(self, proxy: Proxy, seed: int) -> None:
        self._proxy = proxy
        self._moods = moods(seed)
        self._accounts = Accounts()
        self._guests = [Guest(proxy.port) for _ in range(GUESTS)]

    async def play(self, exchanges: int, warm: int) -> Report:
        """All of it."""
        began = time.monotonic()
        levels = [await self._some(warm)]
        for start in range(warm, exchanges, PART):
            levels.append(await self._some(min(PART, exchanges - start)))
        seconds = time.monotonic() - began
        counted = int(self._proxy.scrape().total("tokometer_requests_total"))
        sent = sum((guest.sent for guest in self._guests), Counter())
        report = Report(self._accounts.sent, seconds, counted, self._accounts.told, sent, levels)
        report.problems += self._problems(report)
        return report

    async def _some(self, exchanges: int) -> dict[str, Level]:
        """So many exchanges, at whose end everybody has gone; what the processes then hold."""
        left = iter(range(exchanges))

        async def play(guest: Guest) -> None:
            for _ in left:
                name = next(self._moods)
                await guest.ask(self._accounts.send(name), name)
            guest.leave()

        async with asyncio.TaskGroup() as tasks:
            for guest in self._guests:
                tasks.create_task(play(guest))
        return await asyncio.to_thread(self._quiet)

    def _quiet(self) -> dict[str, Level]:
        """Wait until all is told of and nothing is in flight; what the processes then hold."""
        sent = self._accounts.sent
        eventually(lambda: self._proxy.scrape().total("tokometer_requests_total") >= sent)
        eventually(lambda: self._proxy.scrape().total("tokometer_streams") == 0)
        self._accounts.read(self._proxy.turned())
        time.sleep(2 * KEEPALIVE)
        return self._proxy.levels()

    def _problems(self, report: Report) -> Iterator[str]:
        yield from self._accounts.problems
        missing = self._accounts.missing()
        if missing or report.counted != report.exchanges or report.lines != report.exchanges:
            yield (
                f"{report.exchanges} sent, {report.counted} counted, {report.lines} lines; "
                f"missing: {', '.join(missing[:5])}"
            )
        for title, old in report.levels[0].items():
            new = report.levels[-1].get(title)
            if new is None:
                yield f"{title} is gone"
            elif new.descriptors > old.descriptors:
                yield f"{title}: {old.descriptors} descriptors became {new.descriptors}"
            elif new.memory > MEMORY * old.memory:
                yield f"{title}: {old.memory} KiB became {new.memory}"
