import asyncio
import random
import time
from typing import Any

import pytest

from proxy.engine import EngineSettings
from proxy.engine.ask import Ask, Refusal
from proxy.engine.simulation import Fault, Simulation


def simulation(**settings: Any) -> Simulation:
    return Simulation(EngineSettings(**settings), time.monotonic, asyncio.sleep)


def test_the_first_model_answers_where_none_is_named() -> None:
    assert simulation(models=("one", "two")).model(None) == "one"
    assert simulation(models=("one", "two")).model("two") == "two"


def test_a_model_that_is_not_served_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refusal, match=r"three.*one, two") as refused:
        simulation(models=("one", "two")).model("three")
    assert (refused.value.status, refused.value.param) == (404, "model")


def test_each_request_has_chances_of_its_own_that_follow_from_the_seed() -> None:
    one, again, other = simulation(seed=1), simulation(seed=1), simulation(seed=2)
    draws = [one.chance().random() for _ in range(3)]
    assert len(set(draws)) == 3
    assert [again.chance().random() for _ in range(3)] == draws
    assert other.chance().random() != draws[0]


def test_a_request_goes_wrong_in_ways_that_fit_it() -> None:
    faulty = simulation(error_rate=1.0)

    def seen(stream: bool) -> set[object]:
        ways: set[object] = set()
        for seed in range(100):
            try:
                ways.add(faulty.fault(random.Random(seed), stream))
            except Refusal as refusal:
                ways.add(refusal.status)
        return ways

    assert seen(stream=True) == {429, 500, Fault.ERROR, Fault.CUT}
    assert seen(stream=False) == {429, 500}


def test_a_reply_has_each_answer_to_each_prompt() -> None:
    asked = Ask(None, ("a", "b"), n=2, limit=3)
    reply = simulation().reply(asked, random.Random(1))
    assert (reply.model, len(reply.answers), reply.output_tokens) == ("sim-8b", 4, 12)
    assert len({answer.pieces for answer in reply.answers}) == 4
