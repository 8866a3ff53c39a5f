"""LM Studio's own chat, `/api/v1/chat`: typed events, all of it once more in the last.

Source: LM Studio's documentation (REST API, chat, streaming events). What tools gave back is not
generated. Its `/api/v0` is OpenAI's with `stats` (see `figures`).
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
    mapping,
    mappings,
    text,
    written,
)
from proxy.formats.figures import number, stats
from proxy.formats.prompt import prompt


def call(body: dict[str, JSON], path: str) -> Call:
    """What a chat request asks for."""
    return Call(
        "chat",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=prompt(body, "system_prompt", "input"),
    )


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One typed event, or a whole answer."""
    kind = payload.get("type") or name
    if kind == "message.delta":
        return Event(visible=characters(payload.get("content")))
    if kind == "reasoning.delta":
        return Event(hidden=characters(payload.get("content")))
    if kind == "tool_call.start":
        return Event(visible=characters(payload.get("tool")))
    if kind == "tool_call.arguments":
        return Event(visible=written(payload.get("arguments")))
    if kind == "chat.start":
        return Event(model=text(payload.get("model_instance_id")))
    if kind == "model_load.end":
        seconds = number(payload.get("load_time_seconds"))
        return Event(engine={"load_seconds": seconds} if seconds else None)
    if kind == "chat.end":
        return _whole(mapping(payload.get("result")))
    if is_error(payload, name):
        return Event(error=True)
    whole = not kind and ("output" in payload or "stats" in payload)
    return _whole(payload) if whole else None


def _whole(result: dict[str, JSON]) -> Event:
    found = Event(
        whole=True,
        model=text(result.get("model_instance_id")),
        usage=_usage(mapping(result.get("stats"))),
        engine=stats(result.get("stats")),
        finished=1,
        end=True,
    )
    for item in mappings(result.get("output")):
        if item.get("type") == "reasoning":
            found.hidden += characters(item.get("content"))
        else:
            found.visible += characters(item.get("content")) + characters(item.get("tool"))
            found.visible += written(item.get("arguments"))
    return found


def _usage(reported: dict[str, JSON]) -> Usage | None:
    counts = Usage(
        prompt=count(reported.get("input_tokens")),
        output=count(reported.get("total_output_tokens")),
        reasoning=count(reported.get("reasoning_output_tokens")),
    )
    return counts if counts.prompt or counts.output else None


ROWS = (Interface("chat", re.compile(r"/api/v1/chat/?$"), call, event),)
