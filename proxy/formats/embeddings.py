"""Embeddings and other pooled answers: one JSON text with the prompt's tokens, nothing generated.

Source: OpenAI's API reference (embeddings), Cohere's (embed), Text Embeddings Inference, and
recordings of vLLM and llama.cpp. A native answer that is a list has no counts.
"""

import re

from proxy.formats.event import (
    JSON,
    Call,
    Event,
    Interface,
    Usage,
    count,
    first,
    is_error,
    mapping,
    text,
)
from proxy.formats.prompt import documents, messages

_GIVEN = ("input", "inputs", "content", "texts", "prompt")


def call(body: dict[str, JSON], path: str) -> Call:
    """What an embeddings request asks for."""
    length = sum(documents(body.get(key)) for key in _GIVEN) + messages(body.get("messages"))
    return Call("embeddings", text(body.get("model")), prompt_characters=length or None)


def event(payload: dict[str, JSON], name: str) -> Event:
    """A whole answer."""
    return Event(
        model=text(payload.get("model")), usage=prompt_usage(payload), error=is_error(payload, name)
    )


def prompt_usage(payload: dict[str, JSON]) -> Usage | None:
    """Counts of an answer in which nothing is generated; the output's 0 is not a count.

    Where only a total is given (Jina, Voyage) it is the prompt's. Cohere's billed units leave the
    template out, but are all that it tells.
    """
    reported = mapping(payload.get("usage"))
    meta = mapping(payload.get("meta"))
    prompt = first(reported, "prompt_tokens", "input_tokens", "total_tokens") or first(
        mapping(meta.get("tokens")) or mapping(meta.get("billed_units")), "input_tokens"
    )
    if not prompt:
        return None
    return Usage(prompt=prompt, cached=_cached(reported), total=count(reported.get("total_tokens")))


def _cached(reported: dict[str, JSON]) -> int | None:
    return count(mapping(reported.get("prompt_tokens_details")).get("cached_tokens"))


_PATH = re.compile(r"/(?:embeddings?|embed(?:_all|_sparse)?|pooling|encode|classify)/?$")

ROWS = (Interface("embeddings", _PATH, call, event),)
