"""One connection: how it ends, stalls and is given up."""

import asyncio

import httpx
import pytest
from handheld import Talk, hear, talk
from upstreams import sized

from proxy.connection import StaleConnection

CHUNKED = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "problem", "error"),
    [
        (b"", None, StaleConnection),
        (b"", ConnectionResetError(), StaleConnection),
        (b"H", None, httpx.ReadError),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ConnectionResetError(), httpx.ReadError),
    ],
)
def test_kept_connection_is_stale_only_before_the_first_byte(
    said: bytes, problem: Exception | None, error: type[Exception]
) -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        if said:
            talk.say(said)
        talk.connection.connection_lost(problem)
        with pytest.raises(error):
            await asking

    talk(main)


def test_connection_that_is_lost_before_it_is_asked_is_stale_only_if_it_was_kept() -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        talk.connection.connection_lost(None)
        with pytest.raises(StaleConnection):
            await talk.ask()
        fresh = Talk()
        fresh.connection.connection_lost(None)
        with pytest.raises(httpx.ReadError):
            await fresh.ask()

    talk(main)


@pytest.mark.parametrize(
    ("head", "problem", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None, True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", None, True),
        (b"HTTP/1.1 200 OK\r\n\r\n", ConnectionResetError(), False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", None, False),
        (b"HTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", None, True),
    ],
)
def test_end_of_the_connection_ends_only_an_unframed_body(
    head: bytes, problem: Exception | None, whole: bool
) -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(head + b"text")
        await asking
        reading = asyncio.ensure_future(talk.read())
        await asyncio.sleep(0)
        talk.connection.connection_lost(problem)
        if whole:
            assert [data for data, _ in await reading] == [b"text"]
        else:
            with pytest.raises(httpx.ReadError):
                await reading
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_answer_that_is_given_up_cuts_the_connection_and_the_upload() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(sized(b"early", status=b"413 Too Large"))
        await asking
        upload = asyncio.ensure_future(asyncio.sleep(3600))
        talk.answer.owns(upload)
        assert [data for data, _ in await talk.read()] == [b"early"]
        talk.answer.close()
        await asyncio.gather(upload, return_exceptions=True)
        assert upload.cancelled()
        assert talk.kept == [False]  # the request on it is only half sent

    talk(main)


def test_writer_waits_while_the_socket_is_full_and_no_longer_than_the_connection_lives() -> None:
    async def main(talk: Talk) -> None:
        await talk.connection.drain()
        for free in (talk.connection.resume_writing, lambda: talk.connection.connection_lost(None)):
            talk.connection.pause_writing()
            draining = asyncio.ensure_future(talk.connection.drain())
            await asyncio.sleep(0)
            assert not draining.done()
            free()
            await draining
        talk.connection.write(b"lost")
        assert b"lost" not in talk.wire.written

    talk(main)


def test_kept_connection_that_worked_on_a_request_before_it_was_lost_is_not_stale() -> None:
    """The request may be what killed the upstream: it is not sent again."""

    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.clock.now += 2
        talk.connection.connection_lost(None)
        with pytest.raises(httpx.ReadError):
            await asking

    talk(main)
