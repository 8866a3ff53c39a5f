import asyncio
import random
import statistics
from itertools import pairwise

import pytest

from engine.rig import at_once
from proxy.engine import EngineSettings
from proxy.engine.pace import Pace, Slots, decode_rate


def pace(settings: EngineSettings, prompt_tokens: int = 0, start: float = 0.0) -> Pace:
    return Pace(settings, random.Random(1), start, prompt_tokens, prompt_tokens)


def test_a_lone_users_token_k_is_due_at_ttft_plus_k_over_rate() -> None:
    schedule = pace(EngineSettings(ttft=0.5, rate=40), start=100)
    dues = [schedule.chunk(1, 1) for _ in range(1000)]
    assert dues == pytest.approx([100.5 + k / 40 for k in range(1000)])


def test_the_prompt_adds_its_prefill_to_the_ttft() -> None:
    schedule = pace(EngineSettings(ttft=0.5, prefill_rate=2000), prompt_tokens=3000)
    assert schedule.chunk(1, 1) == pytest.approx(0.5 + 1.5)


def test_a_published_pair_of_speeds_can_be_set() -> None:
    settings = EngineSettings(rate=157, concurrency_slowdown=(157 / 81 - 1) / 7)
    assert decode_rate(settings, 1, 0) == 157
    assert decode_rate(settings, 8, 0) == pytest.approx(81)


def test_context_slows_down_and_grows_with_the_answer() -> None:
    settings = EngineSettings(ttft=0, rate=50, context_slowdown=0.5, prefill_rate=1e9)
    assert decode_rate(settings, 1, 2000) == pytest.approx(25)
    schedule = pace(settings, prompt_tokens=1000)
    first, second, third = (schedule.chunk(1, 1) for _ in range(3))
    assert second - first == pytest.approx(1.5005 / 50)
    assert third - second == pytest.approx(1.5010 / 50)


def test_each_chunk_goes_by_the_present_concurrency() -> None:
    schedule = pace(EngineSettings(ttft=0, rate=10, concurrency_slowdown=1))
    dues = [schedule.chunk(1, users) for users in (9, 1, 4, 2)]
    assert dues == pytest.approx([0, 0.1, 0.5, 0.7])


def test_a_chunk_takes_as_long_as_its_tokens() -> None:
    schedule = pace(EngineSettings(ttft=1, rate=10))
    assert [schedule.chunk(size, 1) for size in (4, 4, 2)] == pytest.approx([1, 1.4, 1.6])


def test_jitter_spreads_the_intervals_and_keeps_their_mean() -> None:
    schedule = pace(EngineSettings(ttft=0, rate=1, jitter=0.3))
    dues = [schedule.chunk(1, 1) for _ in range(20_001)]
    gaps = [after - before for before, after in pairwise(dues)]
    assert min(gaps) > 0
    assert statistics.mean(gaps) == pytest.approx(1, rel=0.02)
    assert statistics.stdev(gaps) == pytest.approx(0.3, rel=0.05)


def test_slots_are_given_in_the_order_of_asking() -> None:
    served: list[int] = []

    async def hold(slots: Slots, number: int) -> None:
        async with slots:
            served.append(number)
            await asyncio.sleep(1)

    async def main() -> None:
        slots = Slots(2)
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(hold(slots, number))
            await asyncio.sleep(0.5)
            assert (slots.taken, served) == (2, [0, 1])
        assert slots.taken == 0
        assert served == [0, 1, 2, 3, 4]

    at_once(main())
