"""Sample traffic: users of several models who ask short and long things, more and fewer of them."""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

CHARACTERS_PER_TOKEN = 4
PROMPTS = (24, 120, 400, 1_200, 3_000, 7_000, 16_000)  # tokens
OFTEN = (30, 30, 16, 12, 6, 4, 2)  # how often each of them, in percent
CALLS = (1, 1, 1, 2, 3, 5)  # of a task; one of them is as likely as the next
WAVE_SECONDS = 40.0  # from one peak of the number of users to the next


@dataclass(frozen=True, slots=True)
class Crowd:
    """The users of one model: `path` comes before the interface's path."""

    model: str
    path: str
    fewest: int
    most: int
    longest_answer: int  # tokens


@dataclass(frozen=True, slots=True)
class Wish:
    """One request; `patience` is after how many chunks the user leaves, None for never."""

    body: dict[str, Any]
    stream: bool
    patience: int | None


def wish(chance: random.Random, crowd: Crowd) -> Wish:
    """What a user wants next: mostly a stream, seldom one that is not waited for."""
    stream = chance.random() < 0.85
    body = {
        "model": crowd.model,
        "messages": [{"role": "user", "content": _prompt(chance)}],
        "max_tokens": chance.randint(16, crowd.longest_answer),
        "stream": stream,
    }
    leaves = stream and chance.random() < 0.08
    return Wish(body, stream, chance.randint(1, 40) if leaves else None)


def _prompt(chance: random.Random) -> str:
    characters = chance.choices(PROMPTS, OFTEN)[0] * CHARACTERS_PER_TOKEN
    # It begins with something new, so that no cache of prompts has it.
    return f"{chance.getrandbits(64):x} {'tell me more ' * characters}"[:characters]


def wanted(crowd: Crowd, seconds: float) -> int:
    """How many users there are `seconds` after the start."""
    share = (1 - math.cos(2 * math.pi * seconds / WAVE_SECONDS)) / 2
    return crowd.fewest + round((crowd.most - crowd.fewest) * share)


# These are clients like any other: it is the proxy that must not use this class for traffic.
Client = httpx.AsyncClient  # noqa: TID251


class Traffic:
    """Users of the OpenAI interface at `url`. Errors are theirs to bear: the proxy counts them."""

    def __init__(self, url: str, crowds: Sequence[Crowd], seed: int = 0) -> None:
        self._url = url
        self._crowds = crowds
        self._seed = seed

    async def run(self) -> None:
        """Until it is cancelled."""
        start = time.monotonic()
        async with (
            # What the environment says of proxies is not about our own.
            Client(
                timeout=None, limits=httpx.Limits(max_connections=None), trust_env=False
            ) as client,
            asyncio.TaskGroup() as users,
        ):
            for crowd in self._crowds:
                for number in range(crowd.most):
                    users.create_task(self._user(client, crowd, number, start))

    async def _user(self, client: Client, crowd: Crowd, number: int, start: float) -> None:
        chance = random.Random(f"{self._seed}/{crowd.model}/{number}")
        while True:
            await asyncio.sleep(chance.uniform(0.05, 1.0))
            if number < wanted(crowd, time.monotonic() - start):
                await self._work(client, crowd, number, chance)

    async def _work(self, client: Client, crowd: Crowd, number: int, chance: random.Random) -> None:
        """One task of a user: some requests with a trace in common."""
        body = {"user": f"user-{number + 1}"}
        trace = {"traceparent": f"00-{chance.getrandbits(128):032x}-{1:016x}-01"}
        for _ in range(chance.choice(CALLS)):
            with contextlib.suppress(httpx.HTTPError):
                await self._ask(client, crowd, wish(chance, crowd), body, trace)

    async def _ask(
        self,
        client: Client,
        crowd: Crowd,
        wish: Wish,
        more: dict[str, Any],
        headers: dict[str, str],
    ) -> None:
        url = f"{self._url}{crowd.path}/v1/chat/completions"
        asked = client.stream("POST", url, json=wish.body | more, headers=headers)
        async with asked as answer:
            seen = 0
            async for _ in answer.aiter_raw():
                seen += 1
                if seen == wish.patience:
                    return
