"""Reranking and scoring: one JSON answer with the tokens of what was compared.

Source: vLLM's and llama.cpp's documentation (rerank, score), Cohere's and Jina's (rerank), Text
Embeddings Inference. A native answer that is a list has no counts.
"""

import re

from proxy.formats.embeddings import prompt_usage
from proxy.formats.event import JSON, Call, Event, Interface, is_error, text
from proxy.formats.prompt import documents

_GIVEN = ("query", "documents", "texts", "text_1", "text_2", "queries", "items")


def call(body: dict[str, JSON], path: str) -> Call:
    """What a rerank or score request asks for."""
    length = sum(documents(body.get(key)) for key in _GIVEN)
    return Call("rerank", text(body.get("model")), prompt_characters=length or None)


def event(payload: dict[str, JSON], name: str) -> Event:
    """A whole answer."""
    return Event(
        model=text(payload.get("model")), usage=prompt_usage(payload), error=is_error(payload, name)
    )


ROWS = (Interface("rerank", re.compile(r"/(?:rerank(?:ing)?|score)/?$"), call, event),)
