from datetime import UTC, datetime
from typing import Any

import pytest

from proxy.engine import EngineSettings
from proxy.engine.answer import Answer, Channel, Piece, Reply, compose, runs
from proxy.engine.ask import Ask, Function


def answer(size: int) -> Answer:
    return Answer(tuple(Piece(Channel.TEXT, str(n)) for n in range(size)), "stop")


def reply(*answers: Answer) -> Reply:
    return Reply(Ask(None, ("",)), "sim-8b", "0", datetime.now(UTC), answers)


def test_the_same_seed_and_prompt_give_the_same_answer() -> None:
    settings = EngineSettings(seed=1)
    first = compose(settings, Ask(None, ("a",)), "a", 0)
    assert compose(settings, Ask(None, ("a",)), "a", 0) == first
    others: list[tuple[int, str, int]] = [(2, "a", 0), (1, "b", 0), (1, "a", 1)]
    for seed, prompt, number in others:
        assert compose(EngineSettings(seed=seed), Ask(None, ("",)), prompt, number) != first


@pytest.mark.parametrize(
    ("limit", "tokens", "finish"),
    [(None, 9, "stop"), (10, 9, "stop"), (9, 9, "stop"), (8, 8, "length"), (2, 2, "length")],
)
def test_a_limit_counts_reasoning_too(limit: int | None, tokens: int, finish: str) -> None:
    settings = EngineSettings(reasoning=4, answer_tokens=5)
    made = compose(settings, Ask(None, ("",), limit=limit), "", 0)
    assert (len(made.pieces), made.finish) == (tokens, finish)
    assert sum(piece.channel is Channel.REASONING for piece in made.pieces) == min(4, tokens)


def test_an_answer_that_is_cut_begins_like_the_whole_one() -> None:
    settings = EngineSettings(reasoning=4)
    whole = compose(settings, Ask(None, ("",)), "", 0)
    cut = compose(settings, Ask(None, ("",), limit=20), "", 0)
    assert cut.pieces == whole.pieces[:20]


@pytest.mark.parametrize(
    ("tools", "more", "called"),
    [
        (False, {}, ""),
        (False, {"tool_choice": "required"}, "one"),
        (True, {}, "one"),
        (True, {"functions": ()}, "get_weather"),
        (True, {"tool_choice": "none"}, ""),
    ],
)
def test_a_tool_is_called_where_set_or_demanded(tools: bool, more: Any, called: str) -> None:
    ask = Ask(**({"model": None, "prompts": ("",), "functions": (Function("one"),)} | more))
    made = compose(EngineSettings(tools=tools), ask, "", 0)
    assert made.text(Channel.NAME) == called
    assert made.finish == ("tool_calls" if called else "stop")
    assert bool(made.text(Channel.TEXT)) is not bool(called)


def test_bursts_hold_every_token_once_and_tell_the_last() -> None:
    steps = reply(answer(5), answer(2)).bursts(2)
    assert [[(b.answer, len(b.pieces), b.last) for b in step] for step in steps] == [
        [(0, 2, False), (1, 2, True)],
        [(0, 2, False)],
        [(0, 1, True)],
    ]
    said = "".join(p.text for step in steps for b in step if b.answer == 0 for p in b.pieces)
    assert said == "01234"


def test_runs_part_a_burst_by_channel() -> None:
    hidden, visible = Channel.REASONING, Channel.TEXT
    pieces = [Piece(hidden, "a"), Piece(hidden, "b"), Piece(visible, "c")]
    assert list(runs(pieces)) == [(hidden, "ab"), (visible, "c")]
