"""llama.cpp's native completions: exact counts in each event, timings in the last."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.llamacpp import call, event

from .recordings import engine, events, last_usage


def native(**fields: Any) -> Event:
    return event({"index": 0, "stop": False, "id_slot": 0, **fields}, "")


def test_each_event_counts_its_own_tokens_and_those_so_far() -> None:
    found = native(content="ab", tokens=[6, 7], tokens_predicted=3, tokens_evaluated=9)
    assert found == Event(visible=2, tokens=2, so_far=3)


def test_a_progress_event_has_a_placeholder_for_a_token() -> None:
    progress = {"total": 64, "cache": 0, "processed": 32, "time_ms": 9}
    found = native(content="", tokens=[0], tokens_predicted=0, prompt_progress=progress)
    assert found == Event()


def test_the_last_event_counts() -> None:
    timings = {"cache_n": 1, "prompt_n": 8, "predicted_n": 3, "predicted_per_second": 30.0}
    found = native(
        **{"content": "", "tokens": [], "stop": True, "stop_type": "eos", "model": "m"},
        **{"tokens_predicted": 3, "tokens_evaluated": 9, "tokens_cached": 11, "timings": timings},
    )
    assert found.usage == Usage(prompt=9, cached=1, output=3)
    assert found.engine is not None
    assert found.engine["decode_tokens_per_second"] == 30.0
    assert (found.finish, found.finished, found.model, found.visible) == ("stop", 1, "m", 0)


def test_the_zeros_of_a_lost_slot_are_not_counts() -> None:
    found = native(content="", stop=True, tokens_predicted=0, tokens_evaluated=0)
    assert (found.usage, found.finished) == (None, 1)


@pytest.mark.parametrize(
    ("stop_type", "finish"),
    [("eos", "stop"), ("word", "stop"), ("limit", "length"), ("none", "none"), (None, None)],
)
def test_why_it_stopped_is_told_in_chat_completions_words(
    stop_type: str | None, finish: str | None
) -> None:
    assert native(stop=True, stop_type=stop_type).finish == finish


def test_several_prompts_are_told_apart() -> None:
    assert native(index=1, content="a").index == 1


def test_an_error_is_an_error() -> None:
    assert event({"error": {"code": 500, "message": "x"}}, "").error
    assert event({"code": 500, "message": "x"}, "error").error


@pytest.mark.parametrize(
    ("body", "choices", "characters"),
    [
        ({"prompt": "abc"}, 1, 3),
        ({"prompt": ["abc", "de"]}, 2, 5),
        ({"prompt": [1, 2, 3]}, 1, None),
        ({"prompt": [[1], [2]]}, 2, None),
        ({"input_prefix": "ab", "input_suffix": "c", "input_extra": [{"text": "de"}]}, 1, 5),
    ],
)
def test_what_a_request_asks_for(
    body: dict[str, Any], choices: int, characters: int | None
) -> None:
    assert call(body | {"stream": True}, "/completion") == Call(
        "llamacpp", stream=True, prompt_characters=characters, choices=choices
    )


def test_recorded_stream() -> None:
    found = events("llamacpp-completion.txt", "/completion")
    assert [one.so_far for one in found if one.visible] == list(range(1, 17))
    assert [one.tokens for one in found if one.visible] == [1] * 16
    assert last_usage(found) == Usage(prompt=4, cached=1, output=16)
    assert engine(found)["decode_tokens_per_second"] == pytest.approx(69.34, abs=0.01)
    assert found[-1].finish == "length"


def test_recorded_whole_answers_alone_and_in_a_list() -> None:
    (found,) = events("llamacpp-completion-whole.txt", "/completion")
    assert (found.visible, found.usage) == (66, Usage(prompt=4, cached=1, output=16))
    (found,) = events("llamacpp-infill-list.txt", "/infill")
    assert (found.visible, found.usage) == (7, Usage(prompt=12, cached=4, output=2))
