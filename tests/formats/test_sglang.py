"""SGLang's `/generate`: the whole text so far in each event, or what is new, and exact counts."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.sglang import call, event

from .recordings import engine, events, last_usage


def generated(text: str, tokens: int, **fields: Any) -> Event:
    meta = {"prompt_tokens": 6, "completion_tokens": tokens, "cached_tokens": 2}
    found = event({"text": text, "meta_info": meta | {"finish_reason": None}, **fields}, "")
    assert found is not None
    return found


def test_an_event_has_the_whole_text_and_counts_along() -> None:
    assert generated("abcd", 3) == Event(
        visible=4, whole=True, so_far=3, usage=Usage(prompt=6, cached=2, output=3)
    )


def test_fewer_token_ids_than_tokens_mean_that_the_text_is_a_delta() -> None:
    assert not generated("cd", 3, output_ids=[7]).whole
    assert generated("abcd", 3, output_ids=[5, 6, 7]).whole


def test_without_a_tokenizer_token_ids_stand_for_the_text() -> None:
    meta = {"completion_tokens": 2, "prompt_tokens": 6}
    found = event({"output_ids": [5, 6], "meta_info": meta}, "")
    assert found is not None
    assert (found.visible, found.whole) == (2, True)


def test_several_prompts_are_told_apart() -> None:
    assert generated("a", 1, index=1).index == 1


@pytest.mark.parametrize(
    ("reason", "finish", "error"),
    [
        ({"type": "stop", "matched": 2}, "stop", False),
        ({"type": "length", "length": 9}, "length", False),
        ({"type": "abort", "message": "Client disconnected"}, "abort", True),
        ("stop", "stop", False),
    ],
)
def test_why_it_ended(reason: Any, finish: str, error: bool) -> None:
    meta = {"completion_tokens": 2, "finish_reason": reason, "e2e_latency": 0.5}
    found = event({"text": "ab", "meta_info": meta}, "")
    assert found is not None
    assert (found.finish, found.finished, found.error) == (finish, 1, error)
    assert found.engine == {"total_seconds": 0.5}


def test_an_error_is_an_error() -> None:
    found = event({"error": {"message": "x"}}, "")
    assert found is not None
    assert found.error


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"text": "abc", "stream": True}, Call("sglang", stream=True, prompt_characters=3)),
        ({"text": ["abc", "de"]}, Call("sglang", prompt_characters=5, choices=2)),
        ({"input_ids": [1, 2], "sampling_params": {"n": 3}}, Call("sglang", choices=3)),
        ({"input_ids": [[1], [2]]}, Call("sglang", choices=2)),
        ({"inputs": "abc"}, Call("tgi", prompt_characters=3)),
    ],
)
def test_the_request_tells_what_it_is_for(body: dict[str, Any], expected: Call) -> None:
    assert call(body, "/generate") == expected


def test_an_answer_of_tgi_on_the_same_path_is_understood() -> None:
    assert event({"generated_text": "abc"}, "") == Event(visible=3, finished=1, end=True)


def test_recorded_cumulative_stream() -> None:
    found = events("sglang-generate.txt", "/generate")
    assert [(one.visible, one.whole, one.so_far) for one in found] == [
        (3, True, 1),
        (7, True, 2),
        (15, True, 4),
        (15, True, 5),
    ]
    assert last_usage(found) == Usage(prompt=12, cached=5, output=5)
    assert engine(found) == {"total_seconds": 0.31}


def test_recorded_incremental_stream() -> None:
    found = events("sglang-generate-incremental.txt", "/generate")
    assert [(one.visible, one.whole) for one in found] == [
        (3, True),
        (4, False),
        (8, False),
        (0, False),
    ]


def test_recorded_batch() -> None:
    found = events("sglang-generate-batch-whole.txt", "/generate")
    assert [(one.visible, one.finish) for one in found] == [(7, "length"), (6, "length")]
