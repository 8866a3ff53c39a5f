"""Text Generation Inference and Triton: a token an event, the whole text once more at the end."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.tgi import call, event

from .recordings import events, last_usage


def token(text: str, special: bool = False, **fields: Any) -> Event:
    return event({"token": {"id": 1, "text": text, "special": special}, **fields}, "")


def test_an_event_is_a_token() -> None:
    assert token("abc", generated_text=None, details=None) == Event(visible=3, tokens=1)


def test_the_index_is_no_count() -> None:
    assert token("abc", index=7) == Event(visible=3, tokens=1)


def test_a_special_token_is_counted_but_not_shown() -> None:
    assert token("</s>", special=True) == Event(tokens=1)


def test_the_whole_text_at_the_end_is_not_output_again() -> None:
    details = {"finish_reason": "length", "generated_tokens": 3, "input_length": 8, "seed": None}
    assert token("ef", generated_text="abcdef", details=details) == Event(
        visible=2, tokens=1, usage=Usage(prompt=8, output=3), finish="length", finished=1, end=True
    )


def test_without_details_there_are_no_counts() -> None:
    found = token("ef", generated_text="abcdef", details=None)
    assert (found.usage, found.finish, found.end) == (None, None, True)


def test_a_whole_answer_is_output() -> None:
    assert event({"generated_text": "abc"}, "") == Event(visible=3, finished=1, end=True)


def test_an_error_is_an_error() -> None:
    assert event({"error": "Request failed", "error_type": "generation"}, "").error


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ({"inputs": "abc"}, "/generate_stream", Call("tgi", stream=True, prompt_characters=3)),
        ({"inputs": "abc", "stream": True}, "/", Call("tgi", stream=True, prompt_characters=3)),
        ({"inputs": "abc"}, "/", Call("tgi", prompt_characters=3)),
        ({"query": "{ user }"}, "/", Call("other")),
        ({}, "", Call("other")),
        (
            {"text_input": "abc"},
            "/v2/models/ensemble/generate_stream",
            Call("tgi", "ensemble", stream=True, prompt_characters=3),
        ),
    ],
)
def test_what_a_request_asks_for(body: dict[str, Any], path: str, expected: Call) -> None:
    assert call(body, path) == expected


def test_recorded_stream() -> None:
    found = events("tgi-generate-stream.txt", "/generate_stream")
    assert [one.visible for one in found] == [3, 4, 3, 0]
    assert sum(one.tokens or 0 for one in found) == 4
    assert last_usage(found) == Usage(prompt=7, output=4)
    assert found[-1].finish == "eos_token"


def test_recorded_whole_answer_in_a_list() -> None:
    (found,) = events("tgi-root-whole.txt", "/", {"inputs": "x"})
    assert (found.visible, found.usage) == (10, Usage(prompt=2, output=3))


def test_recorded_triton_where_any_event_may_be_the_last() -> None:
    found = events("tgi-triton.txt", "/v2/models/ensemble/generate_stream")
    assert [(one.visible, one.end, one.model) for one in found] == [
        (3, True, "ensemble"),
        (4, True, "ensemble"),
        (3, True, "ensemble"),
    ]
