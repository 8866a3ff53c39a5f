"""A proxy in the test's own event loop: relay, listener and transport as in production."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import uvloop
from clients import RawClient
from uvicorn.config import Config
from uvicorn.server import ServerState

from proxy.address import Upstream
from proxy.channel import Begin, End, Output, Record
from proxy.client import Application
from proxy.errors import Failure
from proxy.ledger import Ledger
from proxy.listener import ClientProtocol
from proxy.relay import Relay, Rules
from proxy.routing import Way
from proxy.upstream import Transport

T = TypeVar("T")

# Nothing here waits so long; a test that hangs shall say where.
_HANGS_SECONDS = 30.0


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in the event loop of production. What a callback raises fails it."""
    problems: list[BaseException] = []

    def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problems.append(context.get("exception") or RuntimeError(context["message"]))

    async def limited() -> None:
        asyncio.get_running_loop().set_exception_handler(note)
        async with asyncio.timeout(_HANGS_SECONDS):
            await main()

    uvloop.run(limited())
    if problems:
        raise problems[0]


async def promptly(awaited: Coroutine[Any, Any, T]) -> T:
    """Its result, for which a quarter of a second is enough: as many looks as fit into that.

    On a busy machine they take longer, and so does what is awaited.
    """
    task = asyncio.ensure_future(awaited)
    for _ in range(25):
        if task.done():
            break
        await asyncio.sleep(0.01)
    assert task.done(), "not within 0.25 s"
    return task.result()


class Clock:
    """Seconds that pass when a test says so. Timers are real, but they look at this clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Records:
    """An outlet that keeps everything, and that can be waited for."""

    def __init__(
        self, collect: Callable[[], float | None], snapshot: Callable[[], list[Record]]
    ) -> None:
        self.collect = collect
        self.snapshot = snapshot
        self.all: list[Record] = []
        self._changed = asyncio.Event()

    def put(self, record: Record) -> None:
        self.all.append(record)
        self._changed.set()

    def wake(self) -> None:
        pass

    async def ends(self, count: int = 1) -> list[End]:
        """Wait for so many exchanges to end."""
        while len(found := self.kind("end")) < count:
            self._changed.clear()
            await self._changed.wait()
        return cast(list[End], found)

    async def end(self) -> End:
        """The end of the first exchange."""
        return (await self.ends())[0]

    async def begun(self, count: int = 1) -> list[Begin]:
        while len(found := self.kind("begin")) < count:
            self._changed.clear()
            await self._changed.wait()
        return cast(list[Begin], found)

    def outputs(self) -> list[Output]:
        self.collect()
        return cast(list[Output], self.kind("output"))

    def kind(self, kind: str) -> list[Record]:
        return [record for record in self.all if record["kind"] == kind]


class Listening:
    """A listener on `port`; `state` is uvicorn's."""

    def __init__(self, port: int, state: ServerState) -> None:
        self.port = port
        self.state = state
        self._clients: list[RawClient] = []

    async def client(self, receive_bytes: int | None = None) -> RawClient:
        """A new connection, closed at the latest with the listener."""
        self._clients.append(await RawClient.connect(self.port, receive_bytes))
        return self._clients[-1]

    def connections(self) -> list[ClientProtocol]:
        """Those of clients that are open."""
        return cast(list[ClientProtocol], list(self.state.connections))

    async def close(self) -> None:
        """Nobody is there any more."""
        for client in self._clients:
            await client.close()
        for connection in self.connections():
            connection.transport.abort()
        if self.state.tasks:
            await asyncio.wait(set(self.state.tasks))


@asynccontextmanager
async def serving(
    application: Application,
    clock: Callable[[], float] = time.monotonic,
    keepalive: float = 75,
    patience: float | None = 30,
    refused: Callable[[Failure], None] = lambda failure: None,
    send_limit: float | None = 300,
) -> AsyncIterator[Listening]:
    """A listener on a free port.

    Args:
        keepalive: seconds that it waits for a request.
        patience: seconds that it waits for its head, and for more of its body.
        send_limit: seconds that a client may take nothing of what waits for it.
    """
    loop = asyncio.get_running_loop()
    config = Config(cast(Any, application), ws="none", lifespan="off", log_config=None)
    config.timeout_keep_alive = cast(int, keepalive)
    state = ServerState()
    given = {
        "clock": staticmethod(clock),
        "patience": patience,
        "send_limit": send_limit,
        "refused": staticmethod(refused),
    }
    protocol = type("Protocol", (ClientProtocol,), given)
    server = await loop.create_server(lambda: protocol(config, state, {}, loop), "127.0.0.1", 0)
    listening = Listening(server.sockets[0].getsockname()[1], state)
    try:
        yield listening
    finally:
        server.close()
        await listening.close()


class Proxy(NamedTuple):
    """What a test sees of the proxy."""

    client: Callable[..., Coroutine[Any, Any, RawClient]]
    records: Records
    relay: Relay
    listening: Listening


@asynccontextmanager
async def proxying(
    *upstreams: int | Upstream,
    rules: Rules = Rules(),  # noqa: B008  # immutable
    keepalive: float = 4.0,
    clock: Callable[[], float] = time.monotonic,
    patience: float | None = 30,
    send_limit: float | None = 300,
) -> AsyncIterator[Proxy]:
    """A proxy before these upstreams; a number is the port of one that is named `default`.

    At the exit no exchange is left over.
    """
    found = [
        Upstream("default", "http", "127.0.0.1", u) if isinstance(u, int) else u for u in upstreams
    ]
    outlets: list[Records] = []

    def outlet(
        collect: Callable[[], float | None], snapshot: Callable[[], list[Record]]
    ) -> Records:
        outlets.append(Records(collect, snapshot))
        return outlets[0]

    ledger = Ledger(outlet)
    ways = [
        Way(u, Transport(clock, keepalive, connected=partial(ledger.connected, u.name)))
        for u in sorted(found, key=lambda u: -len(u.prefix))
    ]
    relay = Relay(ways, rules, ledger, clock, time.time)
    async with serving(relay, clock, 75, patience, relay.refused, send_limit) as listening:
        yield Proxy(listening.client, outlets[0], relay, listening)
    for way in ways:
        await way.transport.aclose()
    left = [record for record in outlets[0].snapshot() if record["kind"] == "begin"]
    assert not left, "exchanges are left over"
