"""What formats make of a request and of one payload of an answer, and how they read JSON safely."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

# Any JSON value: what servers send is not to be trusted to have the documented shape.
JSON = Any


@dataclass(slots=True)
class Usage:
    """Token counts as the upstream gave them; None where it said nothing.

    `prompt` includes the cached tokens unless `cached_beside`; `output` includes the reasoning
    tokens unless `total` shows that they were added (see `tokens.Counts`).
    """

    prompt: int | None = None
    cached: int | None = None
    cache_written: int | None = None
    output: int | None = None
    reasoning: int | None = None
    total: int | None = None
    cached_beside: bool = False


@dataclass(slots=True)
class Event:
    """What one payload tells.

    `visible` and `hidden` are characters of generated output: what a user reads or a program
    executes, and reasoning. Both 0 means that the event is not output.
    """

    visible: int = 0
    hidden: int = 0
    whole: bool = False  # characters are those of the whole text so far, not of a delta
    index: int = 0  # which choice of several
    tokens: int | None = None  # output tokens in this event alone, where it says so
    so_far: int | None = None  # output tokens up to and including this event, where it says so
    usage: Usage | None = None
    usage_only: bool = False  # an event that does nothing but report usage
    engine: dict[str, float] | None = None  # the engine's own figures: see `ENGINE_KEYS`
    model: str | None = None
    finish: str | None = None  # why a choice ended
    finished: int = 0  # choices that ended here
    end: bool = False  # nothing generated comes after this
    error: bool = False


# Keys of `Event.engine` and of the request log's `engine`, with their units.
ENGINE_KEYS = {
    "prompt_tokens": "tokens, without the cached ones",
    "cached_prompt_tokens": "tokens",
    "output_tokens": "tokens",
    "prompt_seconds": "seconds of prefill",
    "decode_seconds": "seconds of decode",
    "prefill_tokens_per_second": "tokens per second",
    "decode_tokens_per_second": "tokens per second",
    "queue_seconds": "seconds",
    "load_seconds": "seconds of loading the model",
    "total_seconds": "seconds",
    "ttft_seconds": "seconds",
    "draft_tokens": "tokens proposed by speculation",
    "draft_tokens_accepted": "tokens",
}


@dataclass(slots=True, frozen=True)
class Call:
    """What a request asks for."""

    api: str
    model: str | None = None
    stream: bool = False  # a stream was asked for
    asks_usage: bool = False  # ... and token counts in it
    can_ask_usage: bool = False  # the interface has `stream_options.include_usage`
    prompt_characters: int | None = None  # text only: an image in base64 is not text
    choices: int = 1  # answers asked for: prompts times `n`


class Interface(NamedTuple):
    """A row of `formats.TABLE`.

    `call(body, path)` says what a request asks for, `event(payload, name)` what one payload of
    the answer tells, streamed or whole. Both take any JSON object and never raise.
    """

    api: str
    path_ends: re.Pattern[str]
    call: Callable[[dict[str, JSON], str], Call]
    event: Callable[[dict[str, JSON], str], Event | None]


def text(value: JSON) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


def count(value: JSON) -> int | None:
    """`value` if it is a number of tokens: a whole number, not negative, not absurd."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 1e12 and value == int(value) else None


def number(value: JSON) -> float | None:
    """`value` if it is a measured quantity: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None


def mapping(value: JSON) -> dict[str, JSON]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: JSON) -> list[JSON]:
    """`value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def characters(value: JSON) -> int:
    """Characters of a text, or of all text parts of a content list; anything else has none."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(
            characters(part.get("text") or part.get("content")) if isinstance(part, dict)
            else characters(part) if isinstance(part, str) else 0
            for part in value
        )
    return 0
