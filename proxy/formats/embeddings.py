"""Embeddings: one JSON answer with the prompt's tokens; nothing is generated.

Source: OpenAI's API reference (embeddings); vLLM's and llama.cpp's recordings.
"""

import re

from proxy.formats.event import JSON, Call, Event, Interface, characters, text
from proxy.formats.openai import is_error, usage


def call(body: dict[str, JSON], path: str) -> Call:
    """What an embeddings request asks for."""
    return Call(
        "embeddings", text(body.get("model")), prompt_characters=characters(body.get("input")) or None
    )


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """A whole answer. llama.cpp's native one is a list, which has no counts."""
    reported = payload.get("usage")
    counts = usage(reported) if isinstance(reported, dict) else None
    if counts:
        counts.output = None  # 0 where it is given: not a count of anything
    return Event(model=text(payload.get("model")), usage=counts, error=is_error(payload, name))


ROWS = (Interface("embeddings", re.compile(r"/embeddings?/?$"), call, event),)
