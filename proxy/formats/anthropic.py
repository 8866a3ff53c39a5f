"""Anthropic's messages: typed events, input tokens at the start, output tokens at the end.

Source: Anthropic's API reference (messages, streaming) and recordings of vLLM and llama.cpp.
Tokens read from or written to the cache are counted beside `input_tokens`; `output_tokens`
includes the thinking, and is a placeholder in `message_start`.
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
    first,
    is_error,
    mapping,
    mappings,
    text,
    written,
)
from proxy.formats.prompt import prompt


def call(body: dict[str, JSON], path: str) -> Call:
    """What a messages request asks for. Vertex AI names the model in the path."""
    match = re.search(r"/models/([^/:]+):", path)
    return Call(
        "messages",
        text(body.get("model")) or (match[1] if match else None),
        stream=body.get("stream") is True or path.endswith(":streamRawPredict"),
        prompt_characters=prompt(body, "system", "messages"),
    )


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One typed event, or a whole message."""
    kind = payload.get("type")
    if kind == "content_block_delta":
        return _delta(payload)
    if kind == "content_block_start":
        block = mapping(payload.get("content_block"))
        visible, hidden = _block(block)
        return Event(visible=visible, hidden=hidden)
    if kind == "message_start":
        return _start(mapping(payload.get("message")))
    if kind == "message_delta":
        return _finish(mapping(payload.get("delta")), payload)
    if kind == "message_stop":
        return Event(end=True)
    if is_error(payload, name):
        return Event(error=True)
    return _whole(payload) if "usage" in payload or "content" in payload else None


# Where each kind of delta has its text. Signatures and citations are not generated text.
_VISIBLE = {"text_delta": "text", "input_json_delta": "partial_json"}
_HIDDEN = {"thinking_delta": "thinking", "compaction_delta": "content"}


def _delta(payload: dict[str, JSON]) -> Event:
    delta = mapping(payload.get("delta"))
    kind = text(delta.get("type"))
    event = Event()
    if key := _VISIBLE.get(kind or ""):
        event.visible = characters(delta.get(key))
    elif key := _HIDDEN.get(kind or ""):
        event.hidden = characters(delta.get(key))
    if (reported := payload.get("usage")) is not None:  # Dynamo: cumulative, in every event
        event.usage = usage(reported)
        if event.usage is not None and (event.visible or event.hidden):
            event.so_far = event.usage.output or None
    return event


_TOOLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))


def _block(block: dict[str, JSON]) -> tuple[int, int]:
    """Characters of a content block: visible, thinking. What a tool gave back is not generated."""
    kind = text(block.get("type"))
    if kind == "text":
        return characters(block.get("text")), 0
    if kind in _TOOLS:
        return characters(block.get("name")) + written(block.get("input")), 0
    if kind == "redacted_thinking":
        return 0, 1
    return 0, characters(block.get("thinking")) if kind == "thinking" else 0


def _start(message: dict[str, JSON]) -> Event:
    counts = usage(message.get("usage"))
    if counts is not None:
        counts.output = counts.reasoning = None
    return Event(model=text(message.get("model")), usage=counts)


def _finish(delta: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    reason = text(delta.get("stop_reason"))
    return Event(usage=usage(payload.get("usage")), finish=reason, finished=1 if reason else 0)


def _whole(message: dict[str, JSON]) -> Event:
    event = _finish(message, message)
    event.model = text(message.get("model"))
    for block in mappings(message.get("content")):
        visible, hidden = _block(block)
        event.visible += visible
        event.hidden += hidden
    event.whole = event.end = True
    return event


def usage(reported: JSON) -> Usage | None:
    """The counts of a `usage` object; None for a placeholder of zeros."""
    if not isinstance(reported, dict):
        return None
    counts = Usage(
        prompt=count(reported.get("input_tokens")),
        cached=count(reported.get("cache_read_input_tokens")),
        cache_written=count(reported.get("cache_creation_input_tokens")),
        output=count(reported.get("output_tokens")),
        reasoning=first(mapping(reported.get("output_tokens_details")), "thinking_tokens"),
        cached_beside=True,
    )
    return (
        counts if counts.prompt or counts.cached or counts.cache_written or counts.output else None
    )


# An assistant's thread (`/threads/ID/messages`) has messages of another kind.
_PATH = re.compile(
    r"^(?!.*/threads/).*/messages/?$|/publishers/anthropic/models/[^/]+:(?:streamR|r)awPredict$"
)

ROWS = (Interface("messages", _PATH, call, event),)
