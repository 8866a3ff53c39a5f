"""One request and its answer: how bodies are waited for, and how answers are framed."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from clients import RawClient, get
from proxy_rig import play, serving
from upstreams import chunk

from proxy.client import Client, head
from proxy.headers import Pair

SIZED = [(b"Content-Length", b"5")]
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"


def sized(client: Client) -> None:
    client.start(200, b"", SIZED)
    client.write(b"hel")
    client.write(b"")
    client.write(b"lo")
    client.end()


def unsized(client: Client) -> None:
    client.start(299, b"Own Words", [(b"X-A", b"1")])
    client.write(b"hel")
    client.write(b"")
    client.write(b"lo")
    client.end()


def bodiless(client: Client) -> None:
    client.start(204, b"", [])
    client.end()


CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"hel") + chunk(b"lo") + chunk(b"")


@pytest.mark.parametrize(
    ("request_", "app", "raw"),
    [
        (get(b"/"), sized, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        (get(b"/"), unsized, b"HTTP/1.1 299 Own Words\r\nX-A: 1\r\n" + CHUNKS),
        (get(b"/"), bodiless, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (
            get(b"/", b"Connection: close"),
            sized,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        ),
        (
            b"GET / HTTP/1.0\r\n\r\n",
            unsized,
            b"HTTP/1.1 299 Own Words\r\nX-A: 1\r\nConnection: close\r\n\r\nhello",
        ),
        (
            POST,  # whose body never comes
            sized,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        ),
    ],
)
def test_answer_is_framed_as_the_client_understands_it(
    request_: bytes, app: Callable[[Client], None], raw: bytes
) -> None:
    async def run(client: Client) -> None:
        app(client)

    async def main() -> None:
        async with serving(run) as listening:
            client = await listening.client()
            client.send(request_)
            assert await client.reader.readexactly(len(raw)) == raw
            if b"close" in raw:
                assert await client.ended() == b""
            else:
                client.send(request_)
                assert await client.reader.readexactly(len(raw)) == raw

    play(main)


def test_status_without_a_name_has_none() -> None:
    assert head(200, b"", []) == b"HTTP/1.1 200 OK\r\n\r\n"
    assert head(599, b"", []) == b"HTTP/1.1 599 \r\n\r\n"
    assert head(999, b"", []) == b"HTTP/1.1 999 \r\n\r\n"
    assert head(200, b"Fine", [(b"a", b"")]) == b"HTTP/1.1 200 Fine\r\na: \r\n\r\n"


@pytest.mark.parametrize("size", [1, 16 << 10, (16 << 10) + 1, 1 << 20])
def test_chunk_of_any_size_is_framed_alike(size: int) -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", [])
        client.write(b"x" * size)
        client.write(b"y" * size, chunk(b"y" * size))
        client.end()

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/"))
            await client.head()
            raw = chunk(b"x" * size) + chunk(b"y" * size) + chunk(b"")
            assert await client.reader.readexactly(len(raw)) == raw

    play(main)


def test_chunk_that_is_at_hand_framed_is_not_used_where_none_are_sent() -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", SIZED)
        client.write(b"hello", chunk(b"hello"))
        client.end()

    async def main() -> None:
        async with serving(app) as listening:
            assert (await (await listening.client()).ask(get(b"/"))).body == b"hello"

    play(main)


class Wire:
    """A transport that keeps what each write gave it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.write = self.writes.append


@pytest.mark.parametrize(
    ("headers", "rest"),
    [(SIZED, b"Content-Length: 5\r\n\r\nhello"), ([], CHUNKS[:30] + chunk(b"hello"))],
)
def test_head_waits_for_the_body_that_came_with_it(headers: list[Pair], rest: bytes) -> None:
    async def app(client: Client) -> None:
        wire = Wire()
        transport, client._transport = client._transport, cast(asyncio.Transport, wire)
        client.start(200, b"", headers, more=True)
        assert wire.writes == []
        client.write(b"hello")
        assert wire.writes == [b"HTTP/1.1 200 OK\r\n" + rest]
        client._transport = transport
        transport.write(wire.writes[0])
        client.end()

    async def main() -> None:
        async with serving(app) as listening:
            assert (await (await listening.client()).ask(get(b"/"))).body == b"hello"

    play(main)


def test_full_socket_is_told_of_and_so_is_one_that_has_been_full_before() -> None:
    async def app(client: Client) -> None:
        told: list[str] = []
        client.on_full(lambda: told.append("full"), lambda: told.append("free"))
        client.start(200, b"", [])
        while told[-1:] != ["full"]:
            client.write(b"x" * 65536)
        client.end()
        client.on_full(None, None)
        heard.append(told)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client(receive_bytes=1 << 16)
            client.send(get(b"/"), get(b"/"))
            while len(heard) < 2:  # the second answer begins with the first still in the way
                await asyncio.sleep(0)
            assert heard == [["full"], ["full"]]
            first, second = await client.answer(), await client.answer()
            assert len(first.body) > 65536
            assert second.body == b""

    heard: list[list[str]] = []
    play(main)


def test_socket_that_is_free_again_is_told_of() -> None:
    async def app(client: Client) -> None:
        free = asyncio.Event()
        client.on_full(full.set, free.set)
        client.start(200, b"", [])
        while not full.is_set():
            client.write(b"x" * 65536)
        await free.wait()
        client.end()

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client(receive_bytes=1 << 16)
            client.send(get(b"/"))
            await full.wait()
            assert (await client.answer()).clean

    full = asyncio.Event()
    play(main)


def broken(client: Client) -> None:
    raise KeyError("secret text")


def silent(client: Client) -> None:
    """An application that forgets to answer."""


def unfinished(client: Client) -> None:
    client.start(200, b"", SIZED)
    client.write(b"hel")


@pytest.mark.parametrize("app", [broken, silent, unfinished])
def test_application_that_does_not_finish_never_leaves_the_client_waiting(
    app: Callable[[Client], None], capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(client: Client) -> None:
        app(client)

    async def main() -> None:
        async with serving(run) as listening:
            client = await listening.client()
            client.send(get(b"/"))
            said = await client.ended()
            assert said.endswith(b"hel" if app is unfinished else b"")
            assert not listening.connections()

    play(main)
    error = capsys.readouterr().err
    assert ("KeyError" in error) == (app is broken)
    assert "secret" not in error


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_cut_answer_cannot_be_taken_for_a_whole_one(version: bytes) -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", [])
        client.write(b"hello")
        await had_it.wait()
        client.cut()

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(b"GET / HTTP/" + version + b"\r\nHost: a\r\n\r\n")
            await client.head()
            if version == b"1.1":
                assert await client.chunk() == b"hello"
                had_it.set()
                assert await client.ended() == b""  # without the last chunk
            else:
                assert await client.reader.readexactly(5) == b"hello"
                had_it.set()
                with pytest.raises(ConnectionResetError):
                    await client.reader.read()

    had_it = asyncio.Event()
    play(main)


@pytest.mark.parametrize("leave", [RawClient.leave, RawClient.reset])
def test_nothing_is_written_to_a_client_that_is_gone(leave: Callable[[RawClient], None]) -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", [])
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert client.gone
            client.write(b"x" * 10)
            client.end()
            done.set()
            raise

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/"))
            await asked.wait()
            leave(client)
            await done.wait()
            assert not listening.connections()

    asked, done = asyncio.Event(), asyncio.Event()
    play(main)
