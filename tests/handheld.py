"""A connection to an upstream whose wire the test holds in its hands, with a clock of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from proxy_rig import Clock
from upstreams import Pair, chunk

from proxy.answer import Answer
from proxy.connection import Connection


class Options:
    """The options that were set on a socket."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self.set: dict[tuple[int, int], int] = {}

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.set[level, name] = value


class Wire(asyncio.Transport):
    """What a connection does to its socket."""

    def __init__(self) -> None:
        super().__init__({"socket": Options()})
        self.written = b""
        self.reading = True
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


class Talk:
    """A connection with one exchange on it, or one after the other."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.wire = Wire()
        self.connection = Connection(self.clock)
        self.connection.connection_made(self.wire)
        self._received = self.connection.data_received  # as uvloop does
        self.kept: list[bool] = []
        self.answer: Answer

    async def ask(self, headless: bool = False, idle: float | None = None) -> None:
        """Ask; returns when the head of the answer has come."""
        self.answer = Answer(self.connection, lambda: self.kept.append(self.connection.rest()))
        await self.connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", self.answer, headless, idle)

    async def begin(self, head: bytes) -> None:
        """Ask, and have `head` for an answer so far."""
        asking = asyncio.ensure_future(self.ask())
        await asyncio.sleep(0)
        self.say(head)
        await asking

    def say(self, data: bytes) -> None:
        """A read of the upstream; a second passes before it."""
        self.clock.now += 1
        self._received(data)

    async def read(self) -> list[tuple[bytes, float]]:
        """The rest of the body, by its reads."""
        got: list[tuple[bytes, float]] = []

        def sink(data: bytes, at: float, framed: bytes | None) -> None:
            assert framed in (None, chunk(data))
            got.append((data, at))

        await self.answer.pour(sink)
        return got


def talk(main: Callable[[Talk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):  # nothing here waits
            await main(Talk())

    asyncio.run(run())


async def hear(talk: Talk, *reads: bytes, **how: Any) -> tuple[int, list[Pair], bytes]:
    """Ask, say these reads, and what was understood: status, header pairs, body."""
    asking = asyncio.ensure_future(talk.ask(**how))
    await asyncio.sleep(0)
    for data in filter(None, reads):
        talk.say(data)
    await asking
    body = b"".join(data for data, _ in await talk.read())
    return talk.connection.incoming.status, talk.connection.incoming.headers, body
