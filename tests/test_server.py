import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from clients import RawClient, get
from proxy_rig import play
from uvicorn.config import Config

from proxy.client import Client
from proxy.listener import ClientProtocol
from proxy.server import Server
from proxy.sockets import listen


class Application:
    """Answers at once, but `/slow` only when told to; tells whether it was to refuse."""

    def __init__(self) -> None:
        self.draining = False
        self.go_on = asyncio.Event()
        self.cut = 0

    async def __call__(self, client: Client) -> None:
        client.start(503 if self.draining else 200, b"", [(b"Content-Length", b"2")])
        client.write(b"o")
        try:
            if client.target == b"/slow":
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        client.write(b"k")
        client.end()


class Serving:
    """A server that runs, and its clients."""

    def __init__(self, server: Server, application: Application, port: int) -> None:
        self.server = server
        self.application = application
        self.port = port

    async def client(self) -> RawClient:
        return await RawClient.connect(self.port)

    async def refuses(self) -> None:
        """Wait until nobody listens any more."""
        while True:
            try:
                client = await self.client()
            except ConnectionRefusedError:
                return
            await client.close()


@asynccontextmanager
async def serving(drain: float = 20.0, succeeded: bool = False) -> AsyncIterator[Serving]:
    """The server has to end by itself."""
    application = Application()
    given: dict[str, Any] = {
        "clock": staticmethod(time.monotonic),
        "patience": 30.0,
        "send_limit": 300.0,
        "refused": staticmethod(lambda _: None),
    }
    protocol = type("Protocol", (ClientProtocol,), given)
    config = Config(cast(Any, application), http=protocol, ws="none", lifespan="off")
    listener = listen("127.0.0.1", 0)
    server = Server(config, application, None, drain, succeeded)
    task = asyncio.ensure_future(server.serve(listener))
    yield Serving(server, application, listener.getsockname()[1])
    await task
    assert not server.state.connections and not server.state.tasks


@pytest.mark.parametrize("succeeded", [False, True])
def test_it_ends_when_nobody_is_there(succeeded: bool) -> None:
    async def main() -> None:
        async with serving(succeeded=succeeded) as one:
            client = await one.client()
            assert (await client.ask(get(b"/"))).body == b"ok"
            await client.close()
            one.server.stop()
            await one.refuses()

    play(main)


def test_clients_are_probed_by_the_kernel() -> None:
    async def main() -> None:
        async with serving() as one:
            client = await one.client()
            await client.ask(get(b"/"))
            (connection,) = cast(set[ClientProtocol], one.server.state.connections)
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_KEEPIDLE"):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 120
            await client.close()
            one.server.stop()
            await one.refuses()

    play(main)


def test_running_answers_end_and_their_connections_with_them() -> None:
    async def main() -> None:
        async with serving() as one:
            busy, idle = await one.client(), await one.client()
            assert (await idle.ask(get(b"/"))).status == 200
            busy.send(get(b"/slow"))
            await busy.head()
            one.server.stop()
            assert await idle.ended() == b""
            await one.refuses()
            one.application.go_on.set()
            assert await busy.ended() == b"ok"
            await busy.close()
            await idle.close()

    play(main)


def test_without_a_successor_what_is_asked_from_now_on_is_refused() -> None:
    async def main() -> None:
        async with serving() as one:
            client = await one.client()
            assert (await client.ask(get(b"/"))).status == 200
            one.server.stop()
            answer = await client.ask(get(b"/"))
            assert (answer.status, answer.values(b"connection")) == (503, [b"close"])
            assert await client.ended() == b""
            await client.close()

    play(main)


def test_with_a_successor_it_is_answered_and_the_client_sent_there() -> None:
    async def main() -> None:
        async with serving(succeeded=True) as one:
            kept, late = await one.client(), await one.client()
            assert (await kept.ask(get(b"/"))).values(b"connection") == []
            one.server.stop()
            for client in (kept, late):
                answer = await client.ask(get(b"/"))
                assert (answer.status, answer.body) == (200, b"ok")
                assert answer.values(b"connection") == [b"close"]
                assert await client.ended() == b""
                await client.close()
            await one.refuses()
        assert one.application.draining

    play(main)


def test_what_does_not_end_in_time_is_cut() -> None:
    async def main() -> None:
        async with serving(drain=0.05) as one:
            client = await one.client()
            client.send(get(b"/slow"))
            await client.head()
            one.server.stop()
            assert await client.ended() == b"o"
            await client.close()
        assert one.application.cut == 1

    play(main)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("succeeded", [False, True])
def test_in_a_hurry_nothing_is_waited_for(succeeded: bool, stopped: bool) -> None:
    async def main() -> None:
        async with serving(drain=1000.0, succeeded=succeeded) as one:
            client = await one.client()
            client.send(get(b"/slow"))
            await client.head()
            if stopped:
                one.server.stop()
                await one.refuses()
            one.server.hurry()
            assert await client.ended() == b"o"
            await client.close()
        assert one.application.cut == 1

    play(main)
