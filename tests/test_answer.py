"""An answer gives its body on with arrival times, and never reads ahead of who takes it."""

import asyncio

import httpx
import pytest
from handheld import Talk, talk
from upstreams import chunk

CHUNKED = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_bytes_that_nobody_takes_yet_pause_reading() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 60_000)
        assert talk.wire.reading
        talk.say(b"x" * 60_000)
        assert not talk.wire.reading
        await asking
        reading = asyncio.ensure_future(talk.read())
        await asyncio.sleep(0)
        assert talk.wire.reading
        talk.say(b"x" * 80_000)
        assert [len(data) for data, _ in await reading] == [60_000, 60_000, 80_000]

    talk(main)


def test_taker_that_is_full_at_the_first_bytes_is_given_no_more() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 120_000)
        await asking
        pouring = asyncio.ensure_future(talk.answer.pour(lambda *_: talk.answer.pause()))
        await asyncio.sleep(0)
        assert not talk.wire.reading
        talk.answer.resume()
        assert talk.wire.reading
        pouring.cancel()

    talk(main)


@pytest.mark.parametrize("read", [chunk(b"bad"), chunk(b"b") + chunk(b"ad")])
def test_mistake_of_the_taker_is_raised_where_it_waits(read: bytes) -> None:
    def mistaken(data: bytes, at: float, framed: bytes | None) -> None:
        if data == b"bad":
            raise KeyError(data)

    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED)
        await asking
        pouring = asyncio.ensure_future(talk.answer.pour(mistaken))
        await asyncio.sleep(0)
        talk.say(chunk(b"good"))
        talk.say(read)
        with pytest.raises(KeyError):
            await pouring
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_httpx_can_iterate_an_answer_which_is_not_read_ahead() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED + chunk(b"a"))
        await asking
        got = []
        async for data in talk.answer:
            assert not talk.wire.reading
            got.append(data)
            if len(got) < 3:
                asyncio.get_running_loop().call_soon(talk.say, chunk(b"bc"[len(got) - 1 :][:1]))
            else:
                asyncio.get_running_loop().call_soon(talk.say, chunk(b""))
        assert got == [b"a", b"b", b"c"]

    talk(main)


def test_iteration_ends_with_the_error_of_the_connection() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED + chunk(b"a"))
        await asking
        talk.connection.connection_lost(None)
        with pytest.raises(httpx.ReadError):
            assert [data async for data in talk.answer] == [b"a"]

    talk(main)
