"""The client leaves: the upstream's connection is closed promptly, whatever is going on."""

import asyncio

import orjson
import pytest
from clients import RawClient, get, post
from proxy_rig import Clock, play, promptly, proxying
from upstreams import EVENTS, ScriptedUpstream, Silent, Visit, answering, chunk, sized

CHAT = b"/v1/chat/completions"
STREAM = post(CHAT, b'{"model":"m","stream":true}')
PLAIN = post(CHAT, b'{"model":"m"}')


def event(content: str | None = None, finish: str | None = None) -> bytes:
    delta = {"content": content} if content else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"model": "m", "choices": [choice]}) + b"\n\n"


def leave(client: RawClient, how: str) -> None:
    client.reset() if how == "reset" else client.leave()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (STREAM, b""),
        (PLAIN, b""),
        (get(b"/v1/models"), b""),
        (PLAIN, b"HTTP/1.1 200 OK\r\nContent-Le"),
        (PLAIN, b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"id"'),
        (STREAM, EVENTS),
        (STREAM, EVENTS + chunk(event("Hi"))),
    ],
)
def test_upstream_sees_a_client_leave_within_a_quarter_of_a_second(
    request_: bytes, said: bytes, how: str
) -> None:
    async def main() -> None:
        script = Silent(said)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(request_)
            await script.asked.wait()
            if said.startswith(EVENTS):
                await client.head()
            leave(client, how)
            await promptly(script.closed.wait())
            end = await proxy.records.end()
            assert end["outcome"] == "client_closed"
            assert ("ttft_seconds" in end) == (b"Hi" in said)
            assert not proxy.listening.state.tasks

    play(main)


def test_exchange_that_the_client_gave_up_lasted_until_then() -> None:
    async def main() -> None:
        clock, script = Clock(), Silent()
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, clock=clock) as proxy,
        ):
            client = await proxy.client()
            client.send(STREAM)
            await script.asked.wait()
            clock.now += 3
            client.leave()
            assert (await proxy.records.end())["duration_seconds"] == 3

    play(main)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_client_that_leaves_during_its_upload_takes_the_upstream_connection_along(
    how: str,
) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            assert await anext(visit.chunks()) == b"first"
            leave(client, how)
            assert await visit.gone() == b""
            gone.set()

        gone = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.send(head, chunk(b"first"))
            await gone.wait()
            assert (await proxy.records.end())["outcome"] == "client_closed"

    play(main)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_client_leaves_while_the_upstream_takes_none_of_its_upload(how: str) -> None:
    """Reading is paused then, so that nobody reads the end of the connection."""

    async def main() -> None:
        async def script(visit: Visit) -> None:
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await left.wait()
            visit.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await visit.gone()

        left = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
            (connection,) = proxy.listening.connections()
            turns = 0
            while turns < 50:  # paused for good, and not until the proxy has passed it on
                paused = connection.flow.read_paused
                turns = turns + 1 if paused else 0
                client.send(b"" if paused else b"x" * 65536)
                await asyncio.sleep(0)
            leave(client, how)
            end = await promptly(proxy.records.end())
            assert end["outcome"] == "client_closed"
            left.set()

    play(main)


def test_client_leaves_with_a_second_request_waiting_behind_the_first() -> None:
    async def main() -> None:
        script = Silent()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(STREAM, PLAIN)
            await script.asked.wait()
            leave(client, "close")
            await promptly(script.closed.wait())
            assert (await proxy.records.end())["outcome"] == "client_closed"
            assert len(upstream.visits) == 1  # the second was not sent

    play(main)


def test_client_that_leaves_before_its_body_is_complete_never_reaches_the_upstream() -> None:
    async def main() -> None:
        async with answering(sized(b"")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(STREAM[:-5])
            while not proxy.listening.state.tasks:
                await asyncio.sleep(0)
            client.leave()
            end = await proxy.records.end()
            assert end["outcome"] == "client_closed"
            assert "code" not in end
            assert not upstream.visits

    play(main)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (chunk(event("Hi")) + chunk(event(finish="stop")), "completed"),
        (chunk(event("Hi")) + chunk(b"data: [DONE]\n\n"), "completed"),
        (chunk(event("Hi")) + chunk(b'data: {"error":{"message":"x"}}\n\n'), "error_midstream"),
    ],
)
def test_client_that_leaves_after_the_logical_end_has_its_answer(said: bytes, outcome: str) -> None:
    async def main() -> None:
        script = Silent(EVENTS, said)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(STREAM)
            await client.head()
            await client.chunk()
            client.leave()
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == (outcome, 200)

    play(main)


def test_client_that_leaves_between_two_requests_ends_nothing() -> None:
    async def main() -> None:
        async with answering(sized(b"x")) as upstream, proxying(upstream.port) as proxy:
            for _ in range(3):
                client = await proxy.client()
                await client.ask(get(b"/"))
                client.leave()
            ends = await proxy.records.ends(3)
            assert [end["outcome"] for end in ends] == ["completed"] * 3
            assert len(upstream.visits) == 1

    play(main)
