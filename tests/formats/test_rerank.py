"""Reranking and scoring: what was compared is counted, where it is counted in tokens."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.rerank import call, event

from .recordings import events


@pytest.mark.parametrize(
    ("body", "characters"),
    [
        ({"query": "abc", "documents": ["de", {"text": "f"}]}, 6),
        ({"query": "abc", "texts": ["de"]}, 5),
        ({"text_1": "abc", "text_2": ["de", "f"]}, 6),
        ({}, None),
    ],
)
def test_what_a_request_asks_for(body: dict[str, Any], characters: int | None) -> None:
    expected = Call("rerank", "m", prompt_characters=characters)
    assert call({"model": "m", **body}, "/v1/rerank") == expected


def test_an_error_is_an_error() -> None:
    assert event({"error": {"message": "x"}}, "").error


def test_recorded_answers() -> None:
    assert events("rerank.txt", "/v1/rerank") == [
        Event(model="bge-reranker", usage=Usage(prompt=56, total=56))
    ]
    assert events("rerank-cohere.txt", "/v2/rerank") == [Event()]
