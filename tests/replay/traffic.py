"""Streams of one model, minute by minute, from a seed: a small queueing model of a server.

It knows nothing of rules or cells. With N streams in flight and a context of C thousand tokens

    time per token  = tpot (1 + batch (N - 1)) (1 + cache C)
    time to first   = (wait + uncached tokens / prefill) (1 + queue (N - 1))

both times the day's slowdown, the noise of the minute (shared by all who are in the batch) and the
stream's own. N follows from Little's law, arrivals times duration, and each stream meets a Poisson
number of others; so a slow server, or longer prompts, raise the concurrency as they really do.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_DAY_MINUTES = 24 * 60
_LOOKS = 3  # independent moments in a stream's life at which it meets a new number of others
_SETTLED = 30  # rounds of the fixed point
_MANY = 30  # from here on Poisson is as good as normal
_LONGEST_PROMPT = 120_000
_LONGEST_ANSWER = 8000


@dataclass(frozen=True)
class Server:
    """How fast it is, and how uneven. Spreads are standard deviations of logarithms."""

    tpot: float = 0.025  # seconds
    batch: float = 0.03
    cache: float = 0.01  # by thousand tokens of context
    wait: float = 0.08  # seconds
    prefill: float = 6000.0  # tokens per second
    queue: float = 0.05
    shared_spread: float = 0.08
    shared_memory: float = 0.5  # how much of a minute's noise the next one inherits
    tpot_spread: float = 0.15
    ttft_spread: float = 0.25


@dataclass(frozen=True)
class Demand:
    """What is asked of it: lengths are log-normal."""

    per_minute: float = 30.0  # streams, mean of a day
    daily: float = 0.6  # how much more at the day's peak, and less at night
    prompt: float = 800.0  # tokens, median
    prompt_spread: float = 1.1
    cached: float = 0.4  # share of requests that go on with a conversation ...
    cached_part: float = 0.8  # ... and how much of their prompt is cached
    answer: float = 200.0
    answer_spread: float = 0.7


@dataclass(frozen=True)
class Change:
    """Factors that hold from one minute on."""

    decode: float = 1.0  # time per token
    prefill: float = 1.0  # time to first token
    prompts: float = 1.0
    load: float = 1.0


class Stream(NamedTuple):
    """One completed stream; times in seconds, `end` from the start of the traffic."""

    end: float
    ttft: float
    tpot: float
    prompt: int
    cached: int
    answer: int
    at_arrival: int  # streams in flight, its own included
    decoding: float  # their mean while it decoded


class Traffic:
    """Streams of `minutes` minutes; `change` holds from the minute `at` on."""

    def __init__(
        self, seed: str, server: Server, demand: Demand, change: Change, at: int, minutes: int
    ) -> None:
        self._chance = random.Random(seed)
        self._server = server
        self._demand = demand
        self._change = change
        self._at = at
        self._minutes = minutes
        self._phase = self._chance.randrange(_DAY_MINUTES)

    def minutes(self) -> Iterator[list[Stream]]:
        """The streams that ended in each minute."""
        running: list[Stream] = []
        noise = [_Noise(self._chance, self._server) for _ in range(2)]
        for minute in range(self._minutes):
            change = self._change if minute >= self._at else Change()
            running += self._arrivals(minute, change, *(one.next() for one in noise))
            until = (minute + 1) * 60
            yield [one for one in running if one.end < until]
            running = [one for one in running if one.end >= until]

    def _arrivals(
        self, minute: int, change: Change, decode: float, prefill: float
    ) -> Iterator[Stream]:
        turn = math.sin(2 * math.pi * (minute + self._phase) / _DAY_MINUTES)
        rate = self._demand.per_minute * (1 + self._demand.daily * turn) * change.load
        others = self._others(rate / 60, change)
        for _ in range(_poisson(self._chance, rate)):
            begin = (minute + self._chance.random()) * 60
            yield self._stream(begin, others, change, decode, prefill)

    def _others(self, per_second: float, change: Change) -> float:
        """Streams in flight by Little's law, at which their duration agrees with their number."""
        demand = self._demand
        prompt = demand.prompt * change.prompts * math.exp(demand.prompt_spread**2 / 2)
        answer = demand.answer * math.exp(demand.answer_spread**2 / 2)
        uncached = prompt * (1 - demand.cached * demand.cached_part)
        others = 0.0
        for _ in range(_SETTLED):
            ttft = self._ttft(uncached, 1 + others) * change.prefill
            tpot = self._tpot(prompt + answer / 2, 1 + others) * change.decode
            others = per_second * (ttft + answer * tpot)
        return others

    def _stream(
        self, begin: float, others: float, change: Change, decode: float, prefill: float
    ) -> Stream:
        chance, server, demand = self._chance, self._server, self._demand
        prompt = self._length(demand.prompt * change.prompts, demand.prompt_spread, _LONGEST_PROMPT)
        answer = self._length(demand.answer, demand.answer_spread, _LONGEST_ANSWER) + 1
        cached = int(prompt * demand.cached_part) if chance.random() < demand.cached else 0
        looks = [1 + _poisson(chance, others) for _ in range(_LOOKS)]
        decoding = sum(looks) / _LOOKS
        ttft = self._ttft(prompt - cached, looks[0]) * change.prefill * prefill
        ttft *= chance.lognormvariate(0, server.ttft_spread)
        tpot = self._tpot(prompt + answer / 2, decoding) * change.decode * decode
        tpot *= chance.lognormvariate(0, server.tpot_spread)
        end = begin + ttft + tpot * answer
        return Stream(end, ttft, tpot, prompt, cached, answer, looks[0], decoding)

    def _length(self, median: float, spread: float, most: int) -> int:
        return min(most, 1 + int(self._chance.lognormvariate(math.log(median), spread)))

    def _ttft(self, uncached: float, concurrency: float) -> float:
        server = self._server
        alone = server.wait + uncached / server.prefill
        return alone * (1 + server.queue * (concurrency - 1))

    def _tpot(self, context: float, concurrency: float) -> float:
        server = self._server
        batch = 1 + server.batch * (concurrency - 1)
        return server.tpot * batch * (1 + server.cache * context / 1000)


class _Noise:
    """A factor for each minute that everybody in it shares, and that the next one remembers."""

    def __init__(self, chance: random.Random, server: Server) -> None:
        self._chance = chance
        self._memory = server.shared_memory
        self._spread = server.shared_spread
        self._log = chance.gauss(0, self._spread)

    def next(self) -> float:
        fresh = self._spread * math.sqrt(1 - self._memory**2)
        self._log = self._memory * self._log + self._chance.gauss(0, fresh)
        return math.exp(self._log)


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > _MANY:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    count, left = 0, chance.random()
    while left > math.exp(-mean):
        count += 1
        left *= chance.random()
    return count
