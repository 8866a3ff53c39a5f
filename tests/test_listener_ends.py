"""How connections of clients end: they leave, say nothing, or the server shuts down."""

import asyncio
from collections.abc import Callable

import pytest
from clients import RawClient, get
from proxy_rig import Listening, play, promptly, serving
from test_listener import Waiting, echo


async def paused(listening: Listening) -> None:
    """Wait until the only connection is not read from."""
    while not [c for c in listening.connections() if c.flow.read_paused]:
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", [RawClient.leave, RawClient.reset])
@pytest.mark.parametrize("behind", [get(b"/2"), b"POST /2 HTTP/1.1\r\nContent-Length: 9\r\n\r\n12"])
def test_client_that_leaves_is_noticed_though_nothing_is_read(
    how: Callable[[RawClient], None], behind: bytes
) -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"), behind)
            await paused(listening)
            assert not app.cancelled.is_set()
            how(client)
            await promptly(app.cancelled.wait())
            assert len(app.clients) == 1

    play(main)


def test_client_that_waits_for_two_answers_is_not_taken_for_gone() -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"), get(b"/2"))
            await paused(listening)
            await asyncio.sleep(0.25)  # it is looked for twice
            app.go_on.set()
            for _ in range(2):
                assert (await client.answer()).body == b"ok"

    play(main)


def test_server_that_shuts_down_closes_idle_connections_and_lets_answers_end() -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            busy, idle, fresh = [await listening.client() for _ in range(3)]
            app.go_on.set()
            await idle.ask(get(b"/"))
            app.go_on.clear()
            app.asked.clear()
            busy.send(get(b"/"))
            await app.asked.wait()
            while len(listening.state.connections) < 3:
                await asyncio.sleep(0)
            for connection in listening.connections():
                connection.shutdown()
            assert (await idle.ended(), await fresh.ended()) == (b"", b"")
            app.go_on.set()
            assert (await busy.answer()).body == b"ok"
            assert await busy.ended() == b""

    play(main)


def test_answer_that_is_cut_before_its_time_is_cancelled_and_cut_for_the_client() -> None:
    """As uvicorn does when the time to drain is over."""

    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/"))
            await app.asked.wait()
            (task,) = listening.state.tasks
            task.cancel()
            answer = await client.answer()
            assert (answer.status, answer.clean) == (200, False)
            assert task.cancelled()

    play(main)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX-Slow:", get(b"/"), get(b"/") + b"GE"])
def test_connection_on_which_no_request_comes_in_time_is_closed(said: bytes) -> None:
    async def main() -> None:
        async with serving(echo, keepalive=0.05) as listening:
            client = await listening.client()
            client.send(said)
            got = await client.ended()
            assert got.endswith(b"GET / " if said.startswith(get(b"/")) else b"")

    play(main)


@pytest.mark.parametrize("behind", [b"", b"GET /2 HTT"])
def test_slow_answer_is_no_idle_connection(behind: bytes) -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app, keepalive=0.02) as listening:
            client = await listening.client()
            client.send(get(b"/"), behind)
            await app.asked.wait()
            await asyncio.sleep(0.06)
            app.go_on.set()
            assert (await client.answer()).body == b"ok"

    play(main)
