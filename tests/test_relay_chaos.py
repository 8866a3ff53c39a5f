"""Many clients and a moody upstream at once: bytes reach whom they are for, nothing is left."""

import asyncio
import os
import random
from collections import Counter

import pytest
from clients import RawClient
from proxy_rig import Proxy, play, proxying
from upstreams import ScriptedUpstream, Visit, chunk, sized

from proxy.relay import Rules

CLIENTS = 40
REQUESTS = 8
MOODS = ["sized", "chunked", "closing", "cut", "reset", "silent death", "garbage", "surplus"]
WAYS = ["whole", "whole", "whole", "in pieces", "leaves at once", "leaves later", "resets"]


def body_of(name: bytes) -> bytes:
    return (name + b";") * 3000


async def moody(visit: Visit) -> None:
    """Answers as the target says, with a body that names the request."""
    while True:
        heard = await visit.hear()
        mood = MOODS[int(heard.target.split(b"/")[1])]
        body = body_of(heard.body)
        await asyncio.sleep(0)
        if mood in ("sized", "surplus"):
            visit.say(sized(body), b"more than was asked for" if mood == "surplus" else b"")
        elif mood == "chunked":
            visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 5000):
                visit.say(chunk(body[start : start + 5000]))
                await asyncio.sleep(0)
            visit.say(chunk(b""))
        else:
            if mood == "closing":
                visit.say(b"HTTP/1.1 200 OK\r\n\r\n", body)
            elif mood in ("cut", "reset"):
                visit.say(sized(body)[:-100])
            elif mood == "garbage":
                visit.say(b"\x00 no HTTP\r\n")
            await visit.writer.drain()
            return visit.reset() if mood == "reset" else None


class Guest:
    """A client that asks for things one after the other, and behaves in some way each time."""

    def __init__(self, number: int, chance: random.Random, proxy: Proxy) -> None:
        self._number = number
        self._chance = chance
        self._proxy = proxy
        self.seen: Counter[str] = Counter()

    async def visit(self) -> None:
        client = await self._proxy.client()
        for turn in range(REQUESTS):
            if not await self._ask(client, b"%d-%d" % (self._number, turn)):
                client = await self._proxy.client()
        client.leave()

    async def _ask(self, client: RawClient, name: bytes) -> bool:
        """One request; False if the connection is of no more use."""
        mood = self._chance.randrange(len(MOODS))
        way = self._chance.choice(WAYS)
        head = b"POST /%d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % mood
        client.send(head, chunk(name[:2]))
        if way in ("in pieces", "leaves later"):
            await asyncio.sleep(self._chance.random() / 100)
        client.send(chunk(name[2:]), chunk(b""))
        if way in ("leaves at once", "leaves later"):
            client.leave()
            return False
        if way == "resets":
            client.reset()
            return False
        return await self._read(client, name, MOODS[mood])

    async def _read(self, client: RawClient, name: bytes, mood: str) -> bool:
        answer = await client.answer()
        self.seen[f"{answer.status} {'whole' if answer.clean else 'cut'}"] += 1
        expected = body_of(name)
        if mood in ("sized", "chunked", "closing", "surplus"):
            assert (answer.status, answer.body, answer.clean) == (200, expected, True)
        elif mood in ("cut", "reset"):
            assert answer.status in (200, 502)
            assert expected.startswith(answer.body) or answer.status == 502
            assert not answer.clean or answer.status == 502
        else:
            assert (answer.status, answer.clean) == (502, True)
        return answer.clean and answer.values(b"connection") != [b"close"]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("seed", range(4))
def test_nobody_gets_anothers_bytes_and_nothing_is_left_over(seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        before = open_files()
        async with (
            ScriptedUpstream(moody) as upstream,
            proxying(upstream.port, rules=Rules(idle_timeout=20.0)) as proxy,
        ):
            guests = [Guest(number, chance, proxy) for number in range(CLIENTS)]
            await asyncio.gather(*(guest.visit() for guest in guests))
            while proxy.listening.state.tasks or proxy.listening.connections():
                await asyncio.sleep(0)
            seen = sum((guest.seen for guest in guests), Counter())
            assert set(seen) == {"200 whole", "200 cut", "502 whole"}
            ends = await proxy.records.ends()
            assert len(ends) == len(proxy.records.kind("begin"))
            assert len({end["id"] for end in ends}) == len(ends)
            assert len(ends) >= sum(seen.values())
        await asyncio.sleep(0)
        assert open_files() <= before + 1  # the event loop's own

    play(main)
