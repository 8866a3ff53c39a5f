"""How connections of clients end: they leave, say nothing, or the server shuts down."""

import asyncio

import pytest
from clients import get
from proxy_rig import play, serving
from test_listener import Waiting, echo, refusal

from proxy import errors
from proxy.client import Client
from proxy.errors import Failure


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


@pytest.mark.parametrize("said", [b"", get(b"/")])
def test_connection_on_which_no_request_comes_in_time_is_closed(said: bytes) -> None:
    async def main() -> None:
        async with serving(echo, keepalive=0.05) as listening:
            client = await listening.client()
            client.send(said)
            got = await client.ended()
            assert got.endswith(b"GET / " if said.startswith(get(b"/")) else b"")

    play(main)


@pytest.mark.parametrize("before", [b"", get(b"/")])
@pytest.mark.parametrize("said", [b"G", b"GET / HTTP/1.1\r\nX-Slow:"])
def test_head_that_is_not_whole_in_time_is_refused(before: bytes, said: bytes) -> None:
    told: list[Failure] = []

    async def main() -> None:
        async with serving(echo, patience=0.05, refused=told.append) as listening:
            client = await listening.client()
            client.send(before, said)
            if before:
                assert (await client.answer()).body == b"GET / "
            assert await refusal(client) == (408, "request_timeout")
            assert told == [errors.SLOW]

    play(main)


def test_client_that_drips_its_head_is_refused_all_the_same() -> None:
    async def main() -> None:
        async with serving(echo, patience=0.1) as listening:
            client = await listening.client()
            client.send(b"GET / HTTP/1.1\r\n")
            while not client.reader._buffer:  # type: ignore[attr-defined]
                client.send(b"X-A: 1\r\n")
                await asyncio.sleep(0.01)
            assert await refusal(client) == (408, "request_timeout")

    play(main)


@pytest.mark.parametrize("limit", [0.05, None])
def test_client_that_is_silent_in_its_body_is_refused_if_that_is_limited(
    limit: float | None,
) -> None:
    async def main() -> None:
        async with serving(echo, patience=limit) as listening:
            client = await listening.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234")
            if limit is None:
                await asyncio.sleep(0.1)
                client.send(b"56789")
                assert (await client.answer()).body == b"POST / 123456789"
            else:
                assert await refusal(client) == (408, "request_timeout")

    play(main)


def test_slow_body_that_moves_is_taken() -> None:
    async def main() -> None:
        async with serving(echo, patience=0.2) as listening:
            client = await listening.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            for byte in b"123456789":
                await asyncio.sleep(0.04)
                client.send(bytes([byte]))
            assert (await client.answer()).body == b"POST / 123456789"

    play(main)


def test_client_may_be_silent_while_it_is_answered() -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", [(b"Content-Length", b"9")])
        client.write(b"".join([data async for data in client.stream()]))
        client.end()

    async def main() -> None:
        async with serving(app, patience=0.02) as listening:
            client = await listening.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234")
            await client.head()
            await asyncio.sleep(0.08)
            client.send(b"56789")
            assert await client.reader.readexactly(9) == b"123456789"

    play(main)


@pytest.mark.parametrize(
    ("sent", "gone"), [(b"", False), (b"zz\r\n", True)], ids=["reset", "refused"]
)
def test_client_that_is_gone_at_once_is_still_served_to_the_application(
    sent: bytes, gone: bool
) -> None:
    async def app(client: Client) -> None:
        seen.append(client.gone)
        try:
            await client.collect(100)
        finally:
            seen.append(client.gone)

    async def main() -> None:
        async with serving(app) as listening:
            (await listening.client()).send(b"")
            while not listening.connections():
                await asyncio.sleep(0)
            (connection,) = listening.connections()
            head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.data_received(head + sent)
            connection.connection_lost(ConnectionResetError())
            while listening.state.tasks:
                await asyncio.sleep(0)
            connection.transport.abort()
            assert seen == [gone, True]

    seen: list[bool] = []
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
