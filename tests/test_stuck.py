"""A client that takes nothing is let go, and its upstream with it; one that is slow is not."""

import asyncio

import pytest
from clients import get, post
from handheld import Wire
from proxy_rig import Clock, Proxy, play, proxying, serving
from upstreams import EVENTS, ScriptedUpstream, Visit, chunk

from proxy.client import Client
from proxy.stuck import Stuck

LIMIT = 0.02
BLOCK = b"x" * (1 << 20)
ASK = post(b"/v1/chat/completions", b'{"model":"m","stream":true}')


async def full(proxy: Proxy) -> None:
    """Wait until the only client's socket is full."""
    while not [c for c in proxy.listening.connections() if c.flow.write_paused]:
        await asyncio.sleep(0.001)


class Full(Wire):
    """A socket with bytes that wait."""

    waiting = 1000

    def get_write_buffer_size(self) -> int:
        return self.waiting


@pytest.mark.parametrize("takes", [0, 1])
def test_who_takes_a_byte_in_time_is_not_stuck(takes: int) -> None:
    async def main() -> None:
        clock, full = Clock(), Full()
        found = asyncio.Event()
        stuck = Stuck(full, clock, LIMIT, found.set)
        stuck.begin()
        for _ in range(5):
            stuck.begin()
            full.waiting -= takes
            clock.now += LIMIT
            await asyncio.sleep(2 * LIMIT)
        assert found.is_set() is not bool(takes)
        stuck.end()

    asyncio.run(main())


def test_who_takes_again_is_looked_at_no_more() -> None:
    async def main() -> None:
        clock = Clock()
        found = asyncio.Event()
        stuck = Stuck(Full(), clock, LIMIT, found.set)
        stuck.end()
        stuck.begin()
        stuck.end()
        clock.now += 10
        await asyncio.sleep(3 * LIMIT)
        assert not found.is_set()

    asyncio.run(main())


class Flood:
    """A stream without end."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def __call__(self, visit: Visit) -> None:
        await visit.hear()
        visit.say(EVENTS)
        content = b"x" * 3000
        event = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % content
        try:
            while True:
                visit.say(chunk(event))
                await visit.writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            self.left.set()


def test_client_that_takes_nothing_frees_its_upstream_and_the_line_says_why() -> None:
    async def main() -> None:
        flood, clock = Flood(), Clock()
        async with (
            ScriptedUpstream(flood) as upstream,
            proxying(upstream.port, clock=clock, send_limit=LIMIT) as proxy,
        ):
            client = await proxy.client(receive_bytes=1 << 12)
            client.send(ASK)
            await full(proxy)
            clock.now += 10
            end = await proxy.records.end()
            assert (end["outcome"], end.get("code")) == ("client_closed", 200)
            assert end.get("error") == "the client took nothing for 0.02 s"
            assert end["client_wait_seconds"] == 10
            await flood.left.wait()

    play(main)


def test_client_may_take_nothing_where_that_is_not_limited() -> None:
    async def main() -> None:
        flood, clock = Flood(), Clock()
        async with (
            ScriptedUpstream(flood) as upstream,
            proxying(upstream.port, clock=clock, send_limit=None) as proxy,
        ):
            client = await proxy.client(receive_bytes=1 << 12)
            client.send(ASK)
            await full(proxy)
            clock.now += 10_000
            await asyncio.sleep(5 * LIMIT)
            assert not proxy.records.kind("end")
            client.reset()
            assert "error" not in await proxy.records.end()

    play(main)


@pytest.mark.parametrize("close", [b"Connection: close", b"X-A: b"])
def test_answer_that_ended_and_is_not_taken_does_not_hold_its_connection(close: bytes) -> None:
    async def app(client: Client) -> None:
        client.start(200, b"", [(b"Content-Length", b"%d" % (16 * len(BLOCK)))])
        for _ in range(16):
            client.write(BLOCK)
        client.end()

    async def main() -> None:
        async with serving(app, keepalive=0.03, send_limit=LIMIT) as listening:
            client = await listening.client(receive_bytes=1 << 12)
            client.send(get(b"/", close))
            await client.head()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            while listening.connections():
                await asyncio.sleep(0.001)

    play(main)
