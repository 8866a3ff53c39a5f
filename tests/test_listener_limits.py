"""What a client may send behind its head without end, and what comes behind a request in its read:
neither is held at many times its size.
"""

import asyncio

import pytest
from clients import RawClient, get
from proxy_rig import play, serving
from test_listener import CHUNKED, Waiting, echo, refusal

from proxy import errors
from proxy.client import Client


async def pushed(client: RawClient, piece: bytes) -> int:
    """Send it again and again until there is an answer; how many bytes that took."""
    sent = 0
    while not client.reader._buffer:  # type: ignore[attr-defined]
        client.send(piece)
        await client.writer.drain()
        await asyncio.sleep(0)
        sent += len(piece)
        assert sent < 20_000_000
    return sent


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 1000),
        (b"2\r\n{}\r\n0\r\na: ", b"b" * 6000),
        (b"2\r\n{}\r\n0\r\n", b"a" * 6000),
        (b"2;", b"x" * 6000),
        (b"2;a=", b"x" * 6000),
        (b"0;", b"x" * 6000),
        (b"", b"0" * 6000),
    ],
    ids=["trailers", "value", "name", "extension", "its value", "last extension", "size"],
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_has_no_end_behind_a_head_is_refused(begin: bytes, more: bytes, whole: bool) -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            client.send(CHUNKED, begin if whole else b"")
            if not whole:
                await asyncio.sleep(0.01)
                client.send(begin)
            await pushed(client, more)
            assert await refusal(client) == (431, "request_head_too_large")

    play(main)


def test_trailers_without_end_cut_an_answer_that_has_begun() -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(CHUNKED, b"2\r\n{}\r\n0\r\n")
            assert (await client.head()).status == 200
            await pushed_until_cancelled(client, app)
            assert app.clients[0].refused is errors.HEAD_TOO_LARGE
            assert await client.ended() == b""

    async def pushed_until_cancelled(client: RawClient, app: Waiting) -> None:
        while not app.cancelled.is_set():
            client.send(b"a: b\r\n" * 1000)
            await asyncio.sleep(0.001)

    play(main)


def test_trailers_are_read_and_kept_nowhere() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            for _ in range(3):
                client.send(CHUNKED, b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 9000, b"\r\n")
                assert (await client.answer()).body == b"POST /c {}"
                (connection,) = listening.connections()
                assert not connection.pairs
            assert (await client.ask(get(b"/"))).body == b"GET / "

    play(main)


def test_bodies_are_of_any_length_however_they_are_framed() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            one = b"1;x=" + b"y" * 40_000 + b"\r\na\r\n"
            client.send(CHUNKED, one * 5, b"0\r\n\r\n")
            assert (await client.answer()).body == b"POST /c aaaaa"
            block = b"186a0\r\n" + b"\r\n\r\n\n" * 20_000 + b"\r\n"
            client.send(CHUNKED, block * 3, b"0\r\n\r\n", get(b"/2"))
            assert (await client.answer()).body == b"POST /c " + b"\r\n\r\n\n" * 60_000
            assert (await client.answer()).body == b"GET /2 "

    play(main)


@pytest.mark.parametrize("size", [1, 2, 40, 1000, 1023, 1024, 5000])
def test_a_body_in_small_chunks_is_held_at_about_its_size(size: int) -> None:
    body = bytes(range(1, 251)) * 800
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
        for at in range(0, len(body), size)
    )
    told: list[int] = []

    async def app(client: Client) -> None:
        while not client.arrived:
            await client.collect(1 << 30)
        told.append(sum(map(len, client._pieces)))
        told.append(len(client._pieces))
        assert client.body() == body
        client.start(200, b"", [(b"Content-Length", b"0")])
        client.end()

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(CHUNKED)
            for at in range(0, len(chunks), 50_000):
                client.send(chunks[at : at + 50_000])
                await asyncio.sleep(0)
            client.send(b"0\r\n\r\n")
            assert (await client.answer()).status == 200
            assert told[0] == len(body)
            assert told[1] <= 2 + 2 * len(body) // 1024  # objects

    play(main)


def test_requests_that_wait_behind_another_wait_as_the_bytes_that_they_are() -> None:
    async def main() -> None:
        app = Waiting()
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"))
            await app.asked.wait()
            client.send(get(b"/2") * 500)
            (connection,) = listening.connections()
            while not connection.flow.read_paused:
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            assert len(app.clients) == 1 and not connection.pipeline
            app.go_on.set()
            for _ in range(501):
                assert (await client.answer()).body == b"ok"
            assert [one.target for one in app.clients] == [b"/1"] + [b"/2"] * 500

    play(main)


@pytest.mark.parametrize("inside", [b"\r\n\r\n", b"0\r\n\r\n", b"x\r\n\r\n"])
def test_a_body_that_looks_like_many_ends_is_read_by_turns_and_whole(inside: bytes) -> None:
    body = inside * 5000
    turns = 0

    async def app(client: Client) -> None:
        await client.collect(len(body))
        await echo(client)

    async def main() -> None:
        nonlocal turns
        async with serving(app) as listening:
            client = await listening.client()
            await client.ask(get(b"/"))
            (protocol,) = listening.connections()
            protocol.data_received(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            while not protocol.cycle.arrived:
                turns += 1
                await asyncio.sleep(0)
            assert turns > 0
            assert (await client.answer()).body.endswith(body)

    play(main)
