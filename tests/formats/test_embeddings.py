"""Embeddings: the prompt is counted, nothing is generated."""

from typing import Any

import pytest

from proxy.formats.embeddings import call, event
from proxy.formats.event import Call, Event, Usage

from .recordings import events


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"usage": {"prompt_tokens": 8, "total_tokens": 8}}, Usage(prompt=8, total=8)),
        ({"usage": {"prompt_tokens": 8, "completion_tokens": 0}}, Usage(prompt=8)),
        ({"usage": {"total_tokens": 8}}, Usage(prompt=8, total=8)),
        (
            {"usage": {"prompt_tokens": 8, "prompt_tokens_details": {"cached_tokens": 3}}},
            Usage(prompt=8, cached=3),
        ),
        ({"meta": {"billed_units": {"input_tokens": 5}}}, Usage(prompt=5)),
        ({"meta": {"tokens": {"input_tokens": 6}, "billed_units": {"input_tokens": 5}}}, Usage(6)),
        ({"meta": {"billed_units": {"search_units": 1}}}, None),
        ({"usage": {"prompt_tokens": 0, "total_tokens": 0}}, None),
        ({"embedding": [0.1]}, None),
    ],
)
def test_the_prompts_tokens_in_each_dialect(payload: dict[str, Any], usage: Usage | None) -> None:
    assert event({"model": "m", **payload}, "") == Event(model="m", usage=usage)


def test_an_error_is_an_error() -> None:
    assert event({"error": {"message": "x"}}, "").error


@pytest.mark.parametrize(
    ("body", "characters"),
    [
        ({"input": "abc"}, 3),
        ({"input": ["abc", "de"]}, 5),
        ({"input": [1, 2, 3]}, None),
        ({"inputs": "abc"}, 3),
        ({"content": "abc"}, 3),
        ({"texts": ["abc"]}, 3),
        ({"messages": [{"content": [{"type": "text", "text": "abc"}]}]}, 3),
    ],
)
def test_what_a_request_asks_for(body: dict[str, Any], characters: int | None) -> None:
    expected = Call("embeddings", "m", prompt_characters=characters)
    assert call({"model": "m", **body}, "/v1/embeddings") == expected


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("embeddings-vllm-pooling.txt", Usage(prompt=4, total=4)),
        ("embeddings-llamacpp-base64.txt", Usage(prompt=3, total=3)),
    ],
)
def test_recorded_embeddings(name: str, usage: Usage) -> None:
    (found,) = events(name, "/v1/embeddings")
    assert found.usage == usage
    assert not found.visible


def test_recorded_list_of_embeddings_has_no_counts() -> None:
    assert events("embeddings-list.txt", "/embedding") == [Event(), Event()]
