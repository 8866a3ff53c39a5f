"""Answers that come before the request is complete."""

import asyncio

import pytest
from clients import get
from proxy_rig import play, proxying
from test_relay_failures import Ending, code
from upstreams import (
    EVENTS,
    ScriptedUpstream,
    Visit,
    answering,
    chunk,
    sized,
)


@pytest.mark.parametrize("ending", [None, Visit.close])
def test_answer_before_the_upload_is_complete_reaches_the_client(ending: Ending | None) -> None:
    """And is not overtaken by a reset, though the client goes on sending."""
    refusal = sized(b'{"error":"too large"}', b"Connection: close", status=b"413 Too Large")

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            await visit.reader.readexactly(10)
            visit.say(refusal)
            await visit.writer.drain()
            if ending is None:
                await visit.gone()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
            client.send(b"x" * 10)
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("rejected", 413)
            client.send(b"x" * 3_999_990)
            await client.writer.drain()
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, b'{"error":"too large"}')
            assert answer.values(b"connection") == [b"close"]
            assert await client.ended() == b""

    play(main)


def test_stream_may_begin_before_the_upload_is_complete() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            chunks = visit.chunks()
            visit.say(EVENTS)
            async for data in chunks:
                visit.say(chunk(data))
            visit.say(chunk(b""))
            await visit.gone()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.send(head, chunk(b"one"))
            await client.head()
            assert await client.chunk() == b"one"
            client.send(chunk(b"two"))
            assert await client.chunk() == b"two"
            client.send(chunk(b""))
            assert await client.chunk() == b""
            assert (await proxy.records.end())["outcome"] == "completed"

    play(main)


def test_upstream_that_cannot_be_written_to_is_read_to_its_end() -> None:
    """It answered and closed while the upload went on: the reset is no reason to lose it."""

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            await visit.reader.readexactly(1000)
            visit.say(sized(b"no", status=b"401 Unauthorized"))
            visit.close()
            answered.set()

        answered = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
            client.send(b"x" * 500_000)
            await answered.wait()
            client.send(b"x" * 500_000)
            assert (await client.answer()).status == 401

    play(main)


def test_linger_ends_with_the_client() -> None:
    async def main() -> None:
        async with answering(sized(b"x")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(b"POST ftp://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
            assert code(await client.answer()) == (400, "bad_request_target")
            client.send(b"345", get(b"/"))
            assert await client.ended() == b""  # nothing behind it is answered
            client.leave()
            while proxy.listening.connections():
                await asyncio.sleep(0)
            assert not upstream.heard

    play(main)
