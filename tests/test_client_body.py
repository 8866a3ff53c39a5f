"""A request's body: how it is waited for, held and taken."""

import asyncio
import time

import pytest
from proxy_rig import play, serving
from test_client import POST, sized

from proxy.client import Client


def test_body_is_collected_up_to_a_limit_and_what_came_is_not_lost() -> None:
    async def app(client: Client) -> None:
        told.append((await client.collect(4), await anext(aiter(client.stream()))))
        told.append((await client.collect(100), client.body()))
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(POST, b"01234")
            while not told:
                await asyncio.sleep(0)
            client.send(b"56789")
            assert (await client.answer()).status == 200
            assert told == [(False, b"01234"), (True, b"56789")]

    told: list[tuple[bool, bytes]] = []
    play(main)


def test_body_that_is_exactly_at_the_limit_is_collected() -> None:
    async def app(client: Client) -> None:
        told.append((await client.collect(10), client.body()))
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            assert (await client.ask(POST, b"0123456789")).status == 200
            assert told == [(True, b"0123456789")]

    told: list[tuple[bool, bytes]] = []
    play(main)


def test_arrival_is_that_of_the_last_byte_of_the_body() -> None:
    async def app(client: Client) -> None:
        told.append(client.arrived)
        await client.collect(100)
        told.append(client.arrived)
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(POST, b"01234")
            while not told:
                await asyncio.sleep(0)
            before = time.monotonic()
            client.send(b"56789")
            await client.answer()
            assert told[0] == 0
            assert before < told[1] < time.monotonic()

    told: list[float] = []
    play(main)


def test_body_larger_than_the_buffer_waits_in_the_clients_socket() -> None:
    async def app(client: Client) -> None:
        await started.wait()
        told.append(sum([len(data) async for data in client.stream()]))
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(POST.replace(b"10", b"10000000"), b"x" * 10_000_000)
            while not [c for c in listening.connections() if c.flow.read_paused]:
                await asyncio.sleep(0)
            started.set()
            assert (await client.answer()).status == 200
            assert told == [10_000_000]

    started = asyncio.Event()
    told: list[int] = []
    play(main)


@pytest.mark.parametrize(
    ("line", "expect", "interim"),
    [
        (b"HTTP/1.1", b"100-continue", True),
        (b"HTTP/1.1", b"100-Continue", True),
        (b"HTTP/1.0", b"100-continue", False),
        (b"HTTP/1.1", b"something-else", False),
    ],
)
def test_continue_is_said_once_and_only_when_the_body_is_waited_for(
    line: bytes, expect: bytes, interim: bool
) -> None:
    async def app(client: Client) -> None:
        waiting.set()
        await client.collect(100)
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(b"POST / " + line + b"\r\nHost: a\r\nExpect: " + expect)
            client.send(b"\r\nContent-Length: 10\r\n\r\n")
            if interim:
                assert (await client.head()).line == b"HTTP/1.1 100 Continue"
            await waiting.wait()
            client.send(b"01234")
            await asyncio.sleep(0.01)
            client.send(b"56789")
            assert (await client.answer()).status == 200

    waiting = asyncio.Event()
    play(main)


def test_client_that_is_refused_is_not_told_to_continue() -> None:
    async def app(client: Client) -> None:
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            answer = await client.ask(
                POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
            )
            assert answer.status == 200
            assert answer.values(b"connection") == [b"close"]

    play(main)


def test_upload_that_was_answered_early_is_taken_before_the_connection_closes() -> None:
    async def app(client: Client) -> None:
        sized(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(POST.replace(b"10", b"9000000"))
            assert (await client.answer()).body == b"hello"
            for _ in range(90):
                client.send(b"x" * 100_000)
                await client.writer.drain()  # no reset
            assert await client.ended() == b""
            client.leave()
            while listening.connections():
                await asyncio.sleep(0)

    play(main)
