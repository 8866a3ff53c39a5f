"""Back-pressure from end to end: who does not read is not read from, and memory stays flat."""

import asyncio
import hashlib
from collections.abc import Callable

from clients import RawClient, get, post
from proxy_rig import Clock, Proxy, play, proxying
from upstreams import ScriptedUpstream, Visit, chunk, sized

from proxy.relay import Rules

MEGABYTES = 100
BLOCK = bytes(range(256)) * 4096  # 1 MiB
# The kernel's buffers on the way hold some megabytes.
KERNEL_BYTES = 32 << 20
# What the proxy itself may hold each way: its marks, and a read that crosses them.
HELD_BYTES = 1 << 20


async def stopped(count: Callable[[], int]) -> int:
    """Wait until `count` has not moved for a while: what it is then."""
    same, last = 0, -1
    while same < 20:
        now = count()
        same, last = (same + 1, last) if now == last else (0, now)
        await asyncio.sleep(0.01)
    return last


class Source:
    """A script that sends an answer of 100 MiB as fast as it is taken."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, visit: Visit) -> None:
        await visit.hear()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
        visit.say(head % (MEGABYTES * len(BLOCK)))
        for _ in range(MEGABYTES):
            visit.say(BLOCK)
            await visit.writer.drain()
            self.sent += len(BLOCK)
        await visit.gone()


async def digest(client: RawClient, size: int) -> str:
    """Read so many bytes."""
    found = hashlib.sha1()
    while size:
        data = await client.reader.read(min(size, 1 << 20))
        assert data
        size -= len(data)
        found.update(data)
    return found.hexdigest()


EXPECTED = hashlib.sha1(BLOCK * MEGABYTES).hexdigest()


def held(proxy: Proxy) -> int:
    """Bytes that wait in the proxy for its only client."""
    (connection,) = proxy.listening.connections()
    return int(connection.transport.get_write_buffer_size())


def test_client_that_stops_reading_stops_the_upstream_and_the_wait_is_measured() -> None:
    async def main() -> None:
        clock, source = Clock(), Source()
        rules = Rules(idle_timeout=0.02)
        async with (
            ScriptedUpstream(source) as upstream,
            proxying(upstream.port, rules=rules, clock=clock) as proxy,
        ):
            client = await proxy.client(receive_bytes=1 << 16)
            client.send(get(b"/"))
            await client.head()
            assert await stopped(lambda: source.sent) < KERNEL_BYTES
            assert held(proxy) < HELD_BYTES
            clock.now += 7.5
            await asyncio.sleep(0.05)  # the timer looks: the silence is not the upstream's
            assert await digest(client, MEGABYTES * len(BLOCK)) == EXPECTED
            end = await proxy.records.end()
            assert end["outcome"] == "completed"
            assert end["client_wait_seconds"] == 7.5

    play(main)


def test_client_that_never_reads_and_leaves_frees_the_upstream() -> None:
    async def main() -> None:
        source = Source()
        async with ScriptedUpstream(source) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client(receive_bytes=1 << 16)
            client.send(get(b"/"))
            await client.head()
            await stopped(lambda: source.sent)
            client.leave()
            end = await proxy.records.end()
            assert end["outcome"] == "client_closed"
            assert end["client_wait_seconds"] > 0

    play(main)


def test_upstream_that_takes_no_upload_stops_the_client() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await go_on.wait()
            visit.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await visit.head()
            found = hashlib.sha1()
            for _ in range(MEGABYTES):
                found.update(await visit.reader.readexactly(len(BLOCK)))
            visit.say(sized(found.hexdigest().encode()))
            await visit.gone()

        async def upload() -> None:
            for block in range(MEGABYTES):
                client.send(BLOCK)
                await client.writer.drain()
                sent.append(block)

        sent: list[int] = []
        go_on = asyncio.Event()
        async with (
            ScriptedUpstream(script, limit=2 * len(BLOCK)) as upstream,
            proxying(upstream.port) as proxy,
            asyncio.TaskGroup() as tasks,
        ):
            client = await proxy.client()
            head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
            client.send(head % (MEGABYTES * len(BLOCK)))
            tasks.create_task(upload())
            assert await stopped(lambda: len(sent)) * len(BLOCK) < KERNEL_BYTES
            (connection,) = proxy.listening.connections()
            assert connection.flow.read_paused
            go_on.set()
            assert (await client.answer()).body == EXPECTED.encode()

    play(main)


def test_large_bodies_go_both_ways_at_once() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            async for data in visit.chunks():
                visit.say(chunk(data))
                await visit.writer.drain()
            visit.say(chunk(b""))
            await visit.gone()

        async def upload() -> None:
            for _ in range(20):
                client.send(chunk(BLOCK))
                await client.writer.drain()
            client.send(chunk(b""))

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port) as proxy,
            asyncio.TaskGroup() as tasks,
        ):
            client = await proxy.client()
            client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            tasks.create_task(upload())
            assert (await client.answer()).body == BLOCK * 20
            assert (await proxy.records.end())["outcome"] == "completed"

    play(main)


def test_large_json_is_held_once_and_arrives_whole() -> None:
    body = b'{"model":"m","prompt":"' + b"x" * (8 << 20) + b'"}'

    async def main() -> None:
        async def script(visit: Visit) -> None:
            visit.writer.transport.set_write_buffer_limits(high=0)
            heard = await visit.hear()
            assert heard.body == body
            visit.say(sized(b"{}"))
            await visit.gone()

        async with (
            ScriptedUpstream(script, limit=16 << 20) as upstream,
            proxying(upstream.port) as proxy,
        ):
            client = await proxy.client()
            assert (await client.ask(post(b"/v1/completions", body))).status == 200
            end = await proxy.records.end()
            assert (end["model"], end["outcome"]) == ("m", "completed")

    play(main)
