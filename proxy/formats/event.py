"""What formats make of a request and of one payload of an answer, and how they read JSON safely."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

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

    @property
    def generated(self) -> int | None:
        """Output tokens, reasoning included whichever way it was counted."""
        if self.output is None or not self.reasoning or self.total is None:
            return self.output
        beside = self.total == (self.prompt or 0) + self.output + self.reasoning
        return self.output + self.reasoning if beside else self.output


@dataclass(slots=True)
class Event:
    """What one payload tells.

    `visible` and `hidden` are characters of generated output: what a user reads or a program
    executes, and reasoning. Both 0 means that the event is not output. Output that is no text
    (audio, an image, encrypted reasoning) counts as one character.
    """

    visible: int = 0
    hidden: int = 0
    whole: bool = False  # characters are those of the whole text so far, not of a delta
    index: int = 0  # which choice of several
    tokens: int | None = None  # output tokens in this event alone, where it says so
    so_far: int | None = None  # output tokens of this choice up to and including this event
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

# Reads one payload of an answer, a JSON object, with its event type (`""` if it has none).
Reader = Callable[[dict[str, JSON], str], Event | None]


@dataclass(slots=True, frozen=True)
class Call:
    """What a request asks for. `api` is the label: one path can serve two interfaces."""

    api: str
    model: str | None = None
    stream: bool = False  # a stream was asked for
    asks_usage: bool = False  # ... and token counts in it
    can_ask_usage: bool = False  # the interface has `stream_options.include_usage`
    prompt_characters: int | None = None  # text only: an image in base64 is not text
    choices: int = 1  # answers asked for: prompts times `n`
    reader: Reader | None = None  # instead of the interface's, where the request decides


class Interface(NamedTuple):
    """A row of `formats.TABLE`.

    `call(body, path)` says what a request asks for, `event(payload, name)` what one payload of
    the answer tells, streamed or whole. Both take any JSON object and never raise.
    """

    api: str
    path_ends: re.Pattern[str]
    call: Callable[[dict[str, JSON], str], Call]
    event: Reader


def text(value: JSON) -> str | None:
    """`value` if it is a string with something in it."""
    return value if isinstance(value, str) and value else None


_ABSURD = 10**12


def count(value: JSON) -> int | None:
    """`value` if it is a number of tokens: a whole number, not negative, not absurd."""
    if type(value) is int:
        return value if 0 <= value < _ABSURD else None
    if type(value) is float and 0 <= value < _ABSURD and value.is_integer():
        return int(value)
    return None


def first(source: dict[str, JSON], *keys: str) -> int | None:
    """The count under the first of the keys that holds one."""
    for key in keys:
        if (found := count(source.get(key))) is not None:
            return found
    return None


def mapping(value: JSON) -> dict[str, JSON]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: JSON) -> list[JSON]:
    """`value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: JSON) -> list[dict[str, JSON]]:
    """The JSON objects in `value` if it is a JSON array; a lone object is a list of one."""
    if isinstance(value, dict):
        return [value]
    return [item for item in items(value) if isinstance(item, dict)]


# A list of parts, each with a list of parts: nobody sends more, and recursion has to end.
_DEPTH = 4


def characters(value: JSON, depth: int = _DEPTH) -> int:
    """Characters of a text, or of all text parts of a content list; anything else has none."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list) or not depth:
        return 0
    found = 0
    for part in value:
        if isinstance(part, dict):
            part = part.get("text") or part.get("content") or part.get("refusal")
        found += characters(part, depth - 1)
    return found


def written(value: JSON) -> int:
    """Characters of a tool's arguments: a text as it is, an object as it would be written."""
    if isinstance(value, str):
        return len(value)
    if not value or not isinstance(value, dict | list):
        return 0
    try:
        return len(orjson.dumps(value).decode())
    except orjson.JSONEncodeError:  # nested too deep
        return 1


def is_error(payload: dict[str, JSON], name: str) -> bool:
    """Whether a payload inside a 200 says that the answer failed, in any of the shapes seen."""
    return (
        name == "error"
        or bool(payload.get("error"))
        or payload.get("object") == "error"
        or payload.get("type") == "error"
        or (len(payload) == 1 and "detail" in payload)
    )
