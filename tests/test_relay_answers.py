"""Answers reach the client as they came, read by read, at once."""

import asyncio

import pytest
from clients import get, post
from proxy_rig import play, proxying
from upstreams import EVENTS, Script, ScriptedUpstream, Visit, answering, chunk, sized

from proxy.relay import Rules

CHAT = b"/v1/chat/completions"


@pytest.mark.parametrize("status", [b"200 OK", b"201 Created", b"301 Moved Permanently"])
@pytest.mark.parametrize("body", [b"", b"\x00\xff\r\n\r\n", b"x" * 300_000])
def test_answer_with_a_length_is_the_same_bytes(status: bytes, body: bytes) -> None:
    fields = [b"Location: /x", b"Content-Type: a/b", b"Content-Encoding: gzip"]

    async def main() -> None:
        answer = sized(body, *fields, status=status)
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            assert await client.reader.readexactly(len(answer)) == answer

    play(main)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_answer_without_a_body_gets_no_framing(status: bytes) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 " + status + b'\r\nETag: "1"\r\n\r\n'
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(3):
                client.send(get(b"/"))
                assert await client.reader.readexactly(len(answer)) == answer
            assert len(upstream.visits) == 1

    play(main)


def test_errors_of_the_upstream_pass_untouched() -> None:
    async def main() -> None:
        answers = [
            sized(b'{"detail":"no"}', b"Retry-After: 3", status=status)
            for status in (b"404 Not Found", b"429 Too Many", b"500 Oh", b"503 Busy", b"599 Own")
        ]
        async with answering(*answers) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for answer in answers:
                client.send(post(CHAT, b'{"model":"m"}'))
                assert await client.reader.readexactly(len(answer)) == answer
            ends = await proxy.records.ends(5)
            assert {end["outcome"] for end in ends} == {"rejected"}
            assert [end["code"] for end in ends] == [404, 429, 500, 503, 599]

    play(main)


def test_answer_headers_keep_order_case_and_repetitions() -> None:
    fields = [
        b"Server: engine/1",
        b"dATE: Mon, 30 Nov 2026 00:00:00 GMT",
        b"Set-Cookie: a=1",
        b"X-Empty:",
        b"set-cookie: b=2; Path=/",
        b"X-Bytes: \xc3\xa4\xff",
        b"Vary: *",
        b"Set-Cookie: a=1",
    ]

    async def main() -> None:
        answer = sized(b"{}", *fields)
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            got = (await client.ask(get(b"/"))).headers
            names = [field.partition(b":")[0] for field in fields]
            assert got == [
                *zip(names, [f.partition(b":")[2].strip() for f in fields], strict=True),
                (b"Content-Length", b"2"),
            ]

    play(main)


def test_date_and_server_that_the_upstream_lacks_are_not_made_up() -> None:
    async def main() -> None:
        async with answering(sized(b"")) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(get(b"/"))).headers == [
                (b"Content-Length", b"0")
            ]

    play(main)


def in_turns(*writes: bytes) -> tuple[Script, asyncio.Queue[None]]:
    """A script that makes each write only when it is told to."""
    turn: asyncio.Queue[None] = asyncio.Queue()

    async def script(visit: Visit) -> None:
        await visit.hear()
        for data in writes:
            await turn.get()
            visit.say(data)
        await visit.gone()

    return script, turn


def test_one_upstream_read_is_one_client_write_at_once() -> None:
    """The upstream sends the next chunk only when the client has the last one."""
    texts = [b"a" * size for size in (1, 17_000, 2, 40_000, 3, 0)]

    async def main() -> None:
        script, turn = in_turns(EVENTS, *map(chunk, texts))
        rules = Rules(inject_usage=False)
        async with ScriptedUpstream(script) as up, proxying(up.port, rules=rules) as proxy:
            client = await proxy.client()
            client.send(post(CHAT, b'{"model":"m","stream":true}'))
            turn.put_nowait(None)
            head = await client.head()  # before any byte of the body
            assert head.values(b"transfer-encoding") == [b"chunked"]
            for text in texts:
                turn.put_nowait(None)
                assert await client.chunk() == text

    play(main)


def test_chunks_of_one_read_are_one_chunk_and_its_parts_are_not_awaited() -> None:
    first = chunk(b"a") + chunk(b"b") + b"1;extension=1\r\nc\r\n"
    last = b"h\r\n0\r\nX-Trailer: 1\r\n\r\n"

    async def main() -> None:
        script, turn = in_turns(EVENTS, first, b"5\r\nd", b"efg", last)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            turn.put_nowait(None)
            await client.head()
            for text in (b"abc", b"d", b"efg", b"h"):
                turn.put_nowait(None)
                assert await client.chunk() == text
            assert await client.reader.readexactly(5) == chunk(b"")

    play(main)


def test_first_byte_of_a_sized_answer_is_there_before_the_second_is_sent() -> None:
    async def main() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
        script, turn = in_turns(head, b"1", b"2", b"3")
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            turn.put_nowait(None)
            await client.head()
            for byte in (b"1", b"2", b"3"):
                turn.put_nowait(None)
                assert await client.reader.readexactly(1) == byte
            assert (await proxy.records.end())["chunks"] == 3

    play(main)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_body_that_ends_with_the_connection_is_whole(version: bytes) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(b"HTTP/" + version + b" 200 OK\r\nX-A: 1\r\n\r\n")
            for text in (b"one", b"two"):
                visit.say(text)
                await visit.writer.drain()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):  # the client's connection goes on
                answer = await client.ask(get(b"/"))
                assert (answer.body, answer.clean) == (b"onetwo", True)
            assert [end["outcome"] for end in await proxy.records.ends(2)] == ["completed"] * 2

    play(main)


def test_http_1_0_client_gets_no_chunks() -> None:
    async def main() -> None:
        stream = EVENTS + chunk(b"one") + chunk(b"two") + chunk(b"")
        async with answering(stream, sized(b"three")) as upstream, proxying(upstream.port) as proxy:
            for body, framing in ((b"onetwo", []), (b"three", [b"5"])):
                client = await proxy.client()
                answer = await client.ask(b"GET / HTTP/1.0\r\n\r\n")
                assert answer.body == body
                assert not answer.values(b"transfer-encoding")
                assert answer.values(b"content-length") == framing
                assert answer.values(b"connection") == [b"close"]
                assert await client.ended() == b""

    play(main)


def test_length_of_no_content_is_left_out() -> None:
    """A client that believed it would wait, or take the next answer for the body."""

    async def main() -> None:
        odd = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nA: b\r\n\r\n"
        async with answering(odd, sized(b"next")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert (await client.ask(get(b"/"))).headers == [(b"A", b"b")]
            assert (await client.ask(get(b"/"))).body == b"next"

    play(main)
