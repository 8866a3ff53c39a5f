"""Connections on both sides: reused, one exchange at a time, in order."""

import asyncio

from clients import RawClient, get, post
from proxy_rig import play, proxying
from upstreams import EVENTS, ScriptedUpstream, Visit, answering, chunk, sized


def test_connections_are_reused_on_both_sides() -> None:
    async def main() -> None:
        answers = [sized(b"a"), EVENTS + chunk(b"b") + chunk(b"")] * 5
        async with answering(*answers) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            bodies = [(await client.ask(get(b"/"))).body for _ in answers]
            assert bodies == [b"a", b"b"] * 5
            assert len(upstream.visits) == 1

    play(main)


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                heard = await visit.hear()
                visit.say(sized(heard.target + b":" + heard.body))

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            posts = [post(b"/%d" % i, b"x" * (i * 40_000)) for i in range(4)]
            client.send(get(b"/a"), *posts, get(b"/b"), get(b"/c", b"Connection: close"))
            bodies = [(await client.answer()).body for _ in range(7)]
            assert [body[:3].rstrip(b":x") for body in bodies] == [
                b"/a",
                *(b"/%d" % i for i in range(4)),
                b"/b",
                b"/c",
            ]
            assert [len(body) - 3 for body in bodies] == [0, 0, 40_000, 80_000, 120_000, 0, 0]
            assert await client.ended() == b""
            assert len(upstream.visits) == 1  # each begins when the one before is done

    play(main)


def test_client_that_asks_to_close_is_closed_after_its_answer() -> None:
    async def main() -> None:
        async with answering(sized(b"x")) as upstream, proxying(upstream.port) as proxy:
            for _ in range(2):
                client = await proxy.client()
                answer = await client.ask(get(b"/", b"Connection: close"))
                assert answer.values(b"connection") == [b"close"]
                assert await client.ended() == b""
            assert len(upstream.visits) == 1  # that wish was about its own connection

    play(main)


def test_two_clients_never_share_an_upstream_connection_at_a_time() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                heard = await visit.hear()
                busy.append(visit.number)
                if len(busy) == 10:
                    all_there.set()
                await all_there.wait()
                visit.say(sized(heard.target))

        async def ask(client: RawClient, target: bytes) -> bytes:
            return (await client.ask(get(target))).body

        busy: list[int] = []
        all_there = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            clients = [await proxy.client() for _ in range(10)]
            targets = [b"/%d" % i for i in range(10)]
            together = zip(clients, targets, strict=True)
            got = await asyncio.gather(*(ask(client, target) for client, target in together))
            assert got == targets
            assert sorted(busy) == list(range(1, 11))
            assert await ask(clients[3], b"/again") == b"/again"
            assert len(upstream.visits) == 10

    play(main)
