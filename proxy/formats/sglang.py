"""SGLang's native `/generate`: each event has the whole text so far, and exact counts.

Source: SGLang, docs/basic_usage/native_api and send_request. With `--incremental-streaming-output`
an event has only what is new. Text Generation Inference answers the same path: the request's
`inputs` tells it apart.
"""

import re

from proxy.formats import tgi
from proxy.formats.event import (
    JSON,
    Call,
    Event,
    Interface,
    Usage,
    characters,
    count,
    is_error,
    items,
    mapping,
    text,
)
from proxy.formats.figures import Names, figures


def call(body: dict[str, JSON], path: str) -> Call:
    """What a generate request asks for; with `inputs` it is one for TGI."""
    if "inputs" in body or "text_input" in body:
        return tgi.call(body, path)
    given = body.get("text") or body.get("input_ids") or body.get("prompt")
    several = isinstance(given, list) and all(isinstance(one, str | list) for one in given)
    return Call(
        "sglang",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=characters(body.get("text")) or None,
        choices=_samples(body) * (max(1, len(items(given))) if several else 1),
    )


def _samples(body: dict[str, JSON]) -> int:
    return max(1, count(mapping(body.get("sampling_params")).get("n")) or 1)


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One event, or a whole answer."""
    meta = payload.get("meta_info")
    if not isinstance(meta, dict):
        return tgi.event(payload, name)
    found = Event(
        visible=_length(payload),
        index=count(payload.get("index")) or 0,
        usage=_usage(meta),
        error=is_error(payload, name),
    )
    completion = count(meta.get("completion_tokens"))
    found.whole = not _incremental(payload, completion)
    found.so_far = completion or None
    reason = meta.get("finish_reason")
    if reason:
        found.finished = 1
        found.finish = text(mapping(reason).get("type") or reason)
        found.error |= found.finish == "abort"
        found.engine = figures(meta, _FIGURES)
    return found


def _length(payload: dict[str, JSON]) -> int:
    """Characters of the text; token ids with `--skip-tokenizer-init`, which sends no text."""
    ids = payload.get("output_ids")
    return characters(payload["text"]) if "text" in payload else len(items(ids))


def _incremental(payload: dict[str, JSON], completion: int | None) -> bool:
    """Whether an event has only what is new: fewer token ids than tokens were generated."""
    ids = payload.get("output_ids")
    return isinstance(ids, list) and bool(ids) and len(ids) < (completion or 0)


_FIGURES: Names = {"e2e_latency": ("total_seconds", 1.0)}


def _usage(meta: dict[str, JSON]) -> Usage | None:
    counts = Usage(
        prompt=count(meta.get("prompt_tokens")),
        cached=count(meta.get("cached_tokens")),
        output=count(meta.get("completion_tokens")),
        reasoning=count(meta.get("reasoning_tokens")),
    )
    return counts if counts.prompt or counts.output else None


ROWS = (Interface("sglang", re.compile(r"/generate/?$"), call, event),)
