"""Many clients and a moody upstream at once: bytes reach whom they are for, nothing is left."""

import asyncio
import os
import random
from collections import Counter
from typing import cast

import pytest
from clients import Answer, RawClient
from moods import CUT, FAILED, MOODS, SWITCH, WHOLE, Mood, body_of, moody
from proxy_rig import Proxy, play, proxying
from test_relay_failures import free_port
from upstreams import ScriptedUpstream, chunk

from proxy.address import Upstream
from proxy.channel import End
from proxy.relay import Rules

CLIENTS = 40
REQUESTS = 8
NAMES = list(MOODS)
WAYS = ["at once", "whole", "in pieces", "HEAD", "upgrade", "unreachable"]
PARTINGS = ["leaves at once", "leaves later", "resets", "leaves in its request"]
# Nothing is said of when it left.
PARTED = {"client_closed", "completed", "truncated", "unreachable", "rejected"}


class Guest:
    """A client that asks for things one after the other, and behaves in some way each time."""

    def __init__(self, number: int, chance: random.Random, proxy: Proxy) -> None:
        self._number = number
        self._chance = chance
        self._proxy = proxy
        self.seen: Counter[str] = Counter()
        self.expected: dict[str, set[str]] = {}  # outcomes by request id

    async def visit(self) -> None:
        client = await self._proxy.client()
        for turn in range(REQUESTS):
            if not await self._ask(client, f"{self._number}-{turn}"):
                client = await self._proxy.client()
        client.leave()

    async def _ask(self, client: RawClient, name: str) -> bool:
        """One request; False if the connection is of no more use."""
        mood = self._chance.choice(NAMES)
        way = self._chance.choice(WAYS + PARTINGS)
        if way in PARTINGS:
            self.expected[name] = PARTED
            return await self._part(client, name, mood, way)
        if way == "upgrade":
            self.expected[name] = {"completed"}
            return await self._switch(client, name)
        if way in ("HEAD", "unreachable"):
            return await self._plain(client, name, way)
        self.expected[name] = {MOODS[mood].outcome}
        client.send(*self._request(name, mood, way))
        if way == "in pieces":
            await asyncio.sleep(self._chance.random() / 100)
            client.send(chunk(b"cd"), chunk(b""))
        answer = await self._answer(client)
        check(answer, MOODS[mood], name)
        return self._goes_on(answer)

    def _request(self, name: str, mood: str, way: str) -> list[bytes]:
        head = b"POST /%d HTTP/1.1\r\nHost: a\r\nX-Request-Id: %b\r\n"
        head %= (NAMES.index(mood), name.encode())
        if way == "at once":
            return [head, b"Content-Length: 4\r\n\r\nabcd"]
        body = [chunk(b"ab")] if way == "in pieces" else [chunk(b"abcd"), chunk(b"")]
        return [head, b"Transfer-Encoding: chunked\r\n\r\n", *body]

    async def _part(self, client: RawClient, name: str, mood: str, way: str) -> bool:
        body = "in pieces" if way == "leaves in its request" else "whole"
        client.send(*self._request(name, mood, body))
        if way == "leaves later":
            await asyncio.sleep(self._chance.random() / 100)
        await client.writer.drain() if way == "resets" else None
        client.reset() if way == "resets" else client.leave()
        return False

    async def _switch(self, client: RawClient, name: str) -> bool:
        head = b"GET /echo HTTP/1.1\r\nHost: a\r\nX-Request-Id: %b\r\n" % name.encode()
        client.send(head, b"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        assert (await client.head()).line == SWITCH.partition(b"\r\n")[0]
        client.send(body_of(name.encode()))
        assert await client.reader.readexactly(len(body_of(name.encode())))
        client.leave()
        self.seen["101 whole"] += 1
        return False

    async def _plain(self, client: RawClient, name: str, way: str) -> bool:
        line = b"HEAD /0" if way == "HEAD" else b"GET /nobody"
        client.send(line, b" HTTP/1.1\r\nHost: a\r\nX-Request-Id: %b\r\n\r\n" % name.encode())
        answer = await client.answer(line.partition(b" ")[0])
        self.seen[f"{answer.status} whole"] += 1
        assert answer.status == (200 if way == "HEAD" else 502)
        self.expected[name] = {"completed" if way == "HEAD" else "unreachable"}
        return True

    async def _answer(self, client: RawClient) -> Answer:
        while (answer := await client.answer()).status == 103:
            pass
        self.seen[f"{answer.status} {WHOLE if answer.clean else CUT}"] += 1
        return answer

    def _goes_on(self, answer: Answer) -> bool:
        return answer.clean and answer.values(b"connection") != [b"close"]


def check(answer: Answer, mood: Mood, name: str) -> None:
    """The answer is what such a mood gives, and is meant for this request."""
    assert answer.status == mood.status
    assert answer.clean is (mood.seen != CUT)
    if mood.seen == FAILED:
        assert b"upstream_unreachable" in answer.body
    elif mood.bodiless:
        assert answer.body == b""
    elif answer.body not in (b"", b"x"):
        assert body_of(name.encode()).startswith(answer.body)
        assert (answer.body == body_of(name.encode())) is (mood.seen == WHOLE)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("seed", range(4))
def test_nobody_gets_anothers_bytes_and_nothing_is_left_over(seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        before = open_files()
        nobody = Upstream("nobody", "http", "127.0.0.1", free_port(), prefix="/nobody")
        async with ScriptedUpstream(moody) as upstream:
            some = Upstream("some", "http", "127.0.0.1", upstream.port)
            async with proxying(nobody, some, rules=Rules(idle_timeout=20.0)) as proxy:
                guests = [Guest(number, chance, proxy) for number in range(CLIENTS)]
                await asyncio.gather(*(guest.visit() for guest in guests))
                while proxy.listening.state.tasks or proxy.listening.connections():
                    await asyncio.sleep(0)
                seen = sum((guest.seen for guest in guests), Counter())
                assert set(seen) >= {"200 whole", "200 cut", "502 whole", "101 whole"}
                ends = cast(list[End], proxy.records.kind("end"))
                expected = {key: one for guest in guests for key, one in guest.expected.items()}
                assert len(ends) == len(proxy.records.kind("begin"))
                assert [
                    id for id, count in Counter(e["request_id"] for e in ends).items() if count > 1
                ] == []
                wrong = [e for e in ends if e["outcome"] not in expected[e["request_id"]]]
                assert not wrong
                missing = expected.keys() - {end["request_id"] for end in ends}
                assert all(expected[name] is PARTED for name in missing)
        await asyncio.sleep(0)
        assert open_files() <= before + 1  # the event loop's own

    play(main)


@pytest.mark.parametrize("way", ["at once", "whole", "in pieces"])
@pytest.mark.parametrize("mood", MOODS)
def test_every_mood_alone_has_its_outcome(mood: str, way: str) -> None:
    async def main() -> None:
        async with ScriptedUpstream(moody) as upstream, proxying(upstream.port) as proxy:
            guest = Guest(1, random.Random(1), proxy)
            for turn in range(2):  # on a kept connection, where there is one
                client = await proxy.client()
                client.send(*guest._request(f"{turn}", mood, way))
                if way == "in pieces":
                    await asyncio.sleep(0)
                    client.send(chunk(b"cd"), chunk(b""))
                check(await guest._answer(client), MOODS[mood], f"{turn}")
                end = (await proxy.records.ends(turn + 1))[turn]
                assert (end["outcome"], end["code"]) == (MOODS[mood].outcome, MOODS[mood].status)
                assert ("error" in end) is (MOODS[mood].seen != WHOLE)

    play(main)
