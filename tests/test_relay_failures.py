"""The upstream fails, or the proxy does: what the client sees of it, and what is recorded."""

import asyncio
import socket
from collections.abc import Callable

import orjson
import pytest
from clients import Answer, get, post
from proxy_rig import Clock, play, proxying
from test_framing import frame
from upstreams import (
    EVENTS,
    Script,
    ScriptedUpstream,
    Silent,
    Visit,
    answering,
    chunk,
    sized,
)

from proxy.relay import Rules

CHAT = b"/v1/chat/completions"
STREAM = post(CHAT, b'{"model":"m","stream":true}')
EVENT = b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
Ending = Callable[[Visit], None]
ENDINGS = [Visit.close, Visit.reset]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def code(answer: Answer) -> tuple[int, str]:
    """Status and code of a failure in OpenAI's shape."""
    assert answer.values(b"content-type") == [b"application/json"]
    error = orjson.loads(answer.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("proxy_error", None)
    assert "\n" not in error["message"]
    return answer.status, error["code"]


def saying(*said: bytes, ending: Ending) -> Script:
    """A script that says this after the request, and ends like that."""

    async def script(visit: Visit) -> None:
        await visit.hear()
        visit.say(*said)
        await visit.writer.drain()
        ending(visit)

    return script


def test_refused_connection_is_told_in_openais_shape() -> None:
    async def main() -> None:
        async with proxying(free_port()) as proxy:
            client = await proxy.client()
            head = await client.ask(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (head.status, head.body) == (502, b"")
            for request in (STREAM, get(b"/x")):  # the client's connection goes on
                assert code(await client.ask(request)) == (502, "upstream_unreachable")
            ends = await proxy.records.ends(3)
            assert {(end["outcome"], end["code"]) for end in ends} == {("unreachable", 502)}
            assert [end["stream"] for end in ends] == [False, True, False]
            failed = proxy.records.kind("connected")
            assert [record.get("seconds") for record in failed] == [None] * 3

    play(main)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: te", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_upstream_that_dies_in_the_head_is_a_502(said: bytes, ending: Ending) -> None:
    async def main() -> None:
        script = saying(said, ending=ending)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(STREAM)
            assert code(answer) == (502, "upstream_unreachable")
            assert (await proxy.records.end())["outcome"] == "unreachable"
            assert len(upstream.visits) == 1  # a fresh connection is no stale one

    play(main)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x03\x00\x02\x02\x50",  # a TLS alert: https is spoken there
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nBad\x00Name: 1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_garbage_instead_of_an_answer_is_a_502(said: bytes) -> None:
    async def main() -> None:
        script = Silent(said)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert code(await client.ask(STREAM)) == (502, "upstream_unreachable")
            assert code(await client.ask(STREAM)) == (502, "upstream_unreachable")
            assert len(upstream.visits) == 2

    play(main)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("head", "part"),
    [
        (EVENTS, chunk(EVENT)),
        (EVENTS, chunk(EVENT)[:-2]),
        (EVENTS, chunk(EVENT) + b"0\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", EVENT),
        (EVENTS, chunk(EVENT) + b"this is no chunk\r\n"),
    ],
)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_answer_that_breaks_off_is_cut_off_for_the_client(
    head: bytes, part: bytes, version: bytes, ending: Ending
) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(head)
            await has_head.wait()
            visit.say(part)
            await visit.writer.drain()
            await has_part.wait()
            ending(visit)

        has_head, has_part = asyncio.Event(), asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(STREAM.replace(b"HTTP/1.1", b"HTTP/" + version))
            got = await client.head()
            has_head.set()
            chunked = got.values(b"transfer-encoding") == [b"chunked"]
            data = await (client.chunk() if chunked else client.reader.readexactly(len(EVENT)))
            assert data == EVENT
            has_part.set()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)) as problem:
                await (client.chunk() if chunked else client.reader.readexactly(999))
            unframed = not chunked and not got.values(b"content-length")
            assert unframed == (version == b"1.0" and head == EVENTS)
            if unframed:  # the end of the connection would be the end of the body
                assert isinstance(problem.value, ConnectionError)
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("truncated", 200)
            assert "decode_tokens_per_second" not in end

    play(main)


def test_unframed_answer_that_ends_with_a_reset_is_not_whole() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(b"HTTP/1.1 200 OK\r\n\r\npart")
            await has_part.wait()
            visit.reset()

        has_part = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            await client.head()
            assert await client.chunk() == b"part"
            has_part.set()
            with pytest.raises(asyncio.IncompleteReadError):
                await client.chunk()
            assert (await proxy.records.end())["outcome"] == "truncated"

    play(main)


JSON = b"Content-Type: application/json\r\n"
ANSWER = b'{"id":"c","object":"chat.completion","choices":[{"message":{"content":"a } b"}}]}'
LONG = b'{"data":"' + b"x" * 400_000 + b'","usage":{}}'


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize(
    ("body", "cut"),
    [
        (ANSWER, False),
        (b" \r\n" + ANSWER + b"\n", False),
        (b"[" + ANSWER + b"]", False),
        (LONG, False),
        (b'{"a": NaN}', False),
        (b"{'a': 1}", False),
        (b"no JSON {", False),
        (b"12", False),
        (b"", False),
        (ANSWER[:-1], True),
        (ANSWER[:60], True),
        (ANSWER[:1], True),
        (b"  " + ANSWER[:30], True),
        (b"[" + ANSWER, True),
        (b"[" + ANSWER + b',{"a"', True),
        (LONG[:-4], True),
        (LONG[:300_000], True),
    ],
)
def test_json_that_the_end_of_the_connection_cuts_is_not_whole(
    body: bytes, cut: bool, version: bytes
) -> None:
    async def main() -> None:
        head = b"HTTP/%b 200 OK\r\n%b\r\n" % (version, JSON)
        script = saying(head, body, ending=Visit.close)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(post(CHAT, b'{"model":"m"}'))
            assert (answer.clean, answer.body) == (not cut, body)
            end = await proxy.records.end()
            assert end["outcome"] == ("truncated" if cut else "completed")
            inside = "closed by the upstream inside of the answer's JSON"
            assert end.get("error") == (inside if cut else None)

    play(main)


@pytest.mark.parametrize("coding", [b"", b"Content-Length: 60\r\n"])
def test_json_of_a_length_that_was_kept_is_whole_whatever_it_holds(coding: bytes) -> None:
    async def main() -> None:
        body = ANSWER[:60]
        framed = body if coding else chunk(body) + chunk(b"")
        coding_ = coding or b"Transfer-Encoding: chunked\r\n"
        script = saying(b"HTTP/1.1 200 OK\r\n", JSON, coding_, b"\r\n", framed, ending=Visit.close)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(post(CHAT, b'{"model":"m"}'))
            assert (answer.clean, answer.body) == (True, body)
            assert (await proxy.records.end())["outcome"] == "completed"

    play(main)


FINISH = b'data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (EVENT, "truncated"),
        (EVENT + EVENT[:20], "truncated"),
        (EVENT + FINISH[:30], "truncated"),
        (b"", "truncated"),
        (EVENT + FINISH, "completed"),
        (EVENT + b"data: [DONE]\n\n", "completed"),
        (EVENT + b"data: [DONE]", "completed"),
    ],
)
def test_a_stream_that_the_end_of_the_connection_ends_needs_its_terminator(
    said: bytes, outcome: str, version: bytes
) -> None:
    async def main() -> None:
        head = b"HTTP/%b 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" % version
        script = saying(head, said, ending=Visit.close)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(STREAM)
            assert answer.body == said
            end = await proxy.records.end()
            assert end["outcome"] == outcome

    play(main)


@pytest.mark.parametrize(
    ("damage", "outcome", "error"),
    [
        (None, "completed", None),
        (-1, "truncated", "a frame of the stream is damaged: its checksum or a length is wrong"),
        (9, "truncated", "a frame of the stream is damaged: its checksum or a length is wrong"),
        (0, "truncated", "a frame of the stream is damaged: its checksum or a length is wrong"),
    ],
)
def test_a_damaged_frame_is_told_as_such(
    damage: int | None, outcome: str, error: str | None
) -> None:
    async def main() -> None:
        text = bytearray(frame(b'{"delta":{"text":"Hi"}}', event_type=b"contentBlockDelta"))
        if damage is not None:
            text[damage] ^= 1
        body = bytes(text) + frame(b'{"stopReason":"end_turn"}', event_type=b"messageStop")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n"
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        async with answering(head + length + body) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(post(b"/model/m/converse-stream", b"{}"))
            assert (answer.clean, answer.body) == (True, body)
            end = await proxy.records.end()
            assert (end["outcome"], end.get("error")) == (outcome, error)

    play(main)


IDLE = Rules(idle_timeout=0.02)


def test_silent_upstream_is_a_504_after_the_idle_timeout() -> None:
    async def main() -> None:
        clock, script = Clock(), Silent()
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, rules=IDLE, clock=clock) as proxy,
        ):
            client = await proxy.client()
            client.send(STREAM)
            await script.asked.wait()
            clock.now += 1
            assert code(await client.answer()) == (504, "upstream_timeout")
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("timeout", 504)
            await script.closed.wait()

    play(main)


def test_upstream_that_falls_silent_in_mid_answer_is_cut_off() -> None:
    async def main() -> None:
        clock, script = Clock(), Silent(EVENTS, chunk(EVENT))
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, rules=IDLE, clock=clock) as proxy,
        ):
            client = await proxy.client()
            client.send(STREAM)
            await client.head()
            assert await client.chunk() == EVENT
            clock.now += 1
            with pytest.raises(asyncio.IncompleteReadError):
                await client.chunk()
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("timeout", 200)
            await script.closed.wait()

    play(main)


def test_slow_upload_is_not_the_upstreams_silence() -> None:
    async def main() -> None:
        clock = Clock()
        async with (
            answering(sized(b"{}")) as upstream,
            proxying(upstream.port, rules=IDLE, clock=clock) as proxy,
        ):
            client = await proxy.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
            await proxy.records.begun()
            for byte in (b"a", b"b", b"c"):
                await asyncio.sleep(0.05)  # what was sent has arrived
                clock.now += 1
                await asyncio.sleep(0.05)  # the timer looks at the clock
                client.send(byte)
            assert (await client.answer()).status == 200
            assert upstream.heard[0].body == b"abc"

    play(main)


def test_silence_between_two_requests_is_no_timeout() -> None:
    async def main() -> None:
        clock = Clock()
        async with (
            answering(sized(b"{}")) as upstream,
            proxying(upstream.port, rules=IDLE, clock=clock) as proxy,
        ):
            client = await proxy.client()
            assert (await client.ask(get(b"/"))).status == 200
            clock.now += 1
            await asyncio.sleep(0.05)  # a timer that was left would look at the clock
            assert (await client.ask(get(b"/"))).status == 200
            assert len(upstream.visits) == 1

    play(main)


def test_connection_that_takes_too_long_is_a_504() -> None:
    async def main() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            waiting = [socket.socket() for _ in range(4)]  # the queue is full then
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", port))
            async with proxying(port, rules=Rules(connect_timeout=0.05)) as proxy:
                answer = await (await proxy.client()).ask(STREAM)
                assert code(answer) == (504, "upstream_timeout")
                assert (await proxy.records.end())["outcome"] == "timeout"
            for sock in waiting:
                sock.close()

    play(main)


def test_proxy_that_drains_takes_no_new_requests() -> None:
    async def main() -> None:
        async with answering(sized(b"")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert (await client.ask(STREAM)).status == 200
            proxy.relay.draining = True
            assert code(await client.ask(STREAM)) == (503, "draining")
            assert len(upstream.heard) == 1
            assert (await proxy.records.ends(2))[1]["outcome"] == "aborted"

    play(main)
