"""llama.cpp's native completions: `/completion`, `/infill`.

Source: llama.cpp, tools/server/README.md, and recordings. Each event counts the tokens up to
itself; the last, with `stop`, has the engine's timings.
"""

import re

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
from proxy.formats.figures import timings


def call(body: dict[str, JSON], path: str) -> Call:
    """What a native request asks for. `prompt` may be a text, a list of them, or token ids."""
    given = body.get("prompt")
    several = isinstance(given, list) and all(isinstance(one, str | list) for one in given)
    length = sum(
        characters(body.get(key)) for key in ("prompt", "input_prefix", "input_suffix")
    ) + characters(body.get("input_extra"))
    return Call(
        "llamacpp",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=length or None,
        choices=max(1, len(items(given))) if several else 1,
    )


def event(payload: dict[str, JSON], name: str) -> Event:
    """One event, or a whole answer."""
    found = Event(
        visible=characters(payload.get("content")),
        index=count(payload.get("index")) or 0,
        model=text(payload.get("model")),
        error=is_error(payload, name),
    )
    predicted = count(payload.get("tokens_predicted"))
    if found.visible:
        found.so_far = predicted or None
        # A progress event has the placeholder [0] and no content.
        found.tokens = len(items(payload.get("tokens"))) or None
    if payload.get("stop") is True:
        found.finished = 1
        found.finish = _finish(payload)
        found.engine = timings(payload.get("timings"))
        found.usage = _usage(payload, predicted)
    return found


def _usage(payload: dict[str, JSON], predicted: int | None) -> Usage | None:
    """The counts of the last event; versions that lost an aborted slot's give zeros.

    `tokens_cached` is what the slot holds at the end, not what was found there at the start.
    """
    counts = Usage(
        prompt=count(payload.get("tokens_evaluated")),
        cached=count(mapping(payload.get("timings")).get("cache_n")),
        output=predicted,
    )
    return counts if counts.prompt or counts.output else None


# `stop_type` in chat completions' words.
_FINISH = {"eos": "stop", "word": "stop", "limit": "length"}


def _finish(payload: dict[str, JSON]) -> str | None:
    stop = text(payload.get("stop_type"))
    return _FINISH.get(stop, stop) if stop else None


ROWS = (Interface("llamacpp", re.compile(r"/(?:completion|infill)/?$"), call, event),)
