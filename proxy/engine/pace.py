"""When the simulated engine's tokens are due.

A lone user's first token comes `ttft + prompt tokens / prefill_rate` after a slot was free, and
every further one 1 / rate later, where with N requests in slots and a context of C tokens

    rate(N, C) = rate / ((1 + concurrency_slowdown (N - 1)) (1 + context_slowdown C / 1000))

that is: the time per token grows by a constant share with each further sequence of the batch, and
with each further thousand tokens of cache to read. For R1 tokens/s alone and RN each at N users,
`concurrency_slowdown` is (R1 / RN - 1) / (N - 1): 157 alone and 81 each at 8 need 0.134.
"""

import asyncio
import math
import random

from proxy.engine.settings import EngineSettings


def decode_rate(settings: EngineSettings, concurrency: int, context: int) -> float:
    """Tokens per second of each of `concurrency` requests, at `context` tokens."""
    batch = 1 + settings.concurrency_slowdown * (concurrency - 1)
    cache = 1 + settings.context_slowdown * context / 1000
    return settings.rate / (batch * cache)


class Pace:
    """Due times of one request's chunks, on the clock that `start` was read from.

    Each is reckoned from the one before and not from when that was sent: a late wake-up does not
    put off what comes after. `context`: tokens that each answer starts with.
    """

    def __init__(
        self,
        settings: EngineSettings,
        chance: random.Random,
        start: float,
        prompt_tokens: int,
        context: int,
    ) -> None:
        self._settings = settings
        self._chance = chance
        self._context = context
        prefill = settings.ttft + prompt_tokens / settings.prefill_rate
        self.due = start + prefill * self._jitter()
        self._begun = False

    def chunk(self, tokens: int, concurrency: int) -> float:
        """When the next chunk is due, `tokens` long, with the present concurrency."""
        if self._begun:
            rate = decode_rate(self._settings, concurrency, self._context)
            self.due += tokens / rate * self._jitter()
        self._begun = True
        self._context += tokens
        return self.due

    def pause(self, seconds: float) -> None:
        """Put off all that is still to come."""
        self.due += seconds

    def _jitter(self) -> float:
        """A factor of mean 1 and standard deviation `jitter`, log-normal."""
        variance = math.log1p(self._settings.jitter**2)
        return self._chance.lognormvariate(-variance / 2, math.sqrt(variance)) if variance else 1.0


class Slots:
    """Places of the batch: `async with slots` waits for a free one, first come first served."""

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)
        self.taken = 0

    async def __aenter__(self) -> None:
        await self._free.acquire()
        self.taken += 1

    async def __aexit__(self, *_: object) -> None:
        self.taken -= 1
        self._free.release()
