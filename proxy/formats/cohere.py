"""Cohere's chat, version 2 (typed server-sent events) and version 1 (JSON lines).

Source: Cohere's API reference (chat, streaming) and a recording of version 2. `billed_units` leave
out what Cohere adds to the prompt; the tokens are under `tokens`.
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
from proxy.formats.prompt import prompt


def call(body: dict[str, JSON], path: str) -> Call:
    """What a chat request asks for: `messages` in version 2, `message` in version 1."""
    return Call(
        "cohere",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=prompt(
            body, "messages", "preamble", "chat_history", "message", "documents"
        ),
    )


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One event of either version, or a whole answer."""
    kind = text(payload.get("type")) or text(payload.get("event_type")) or name
    delta = mapping(payload.get("delta"))
    if read := _EVENTS.get(kind):
        return read(mapping(delta.get("message")), payload)
    if kind == "message-end":
        return _end(delta, mapping(delta.get("usage")))
    if kind == "stream-end":
        response = mapping(payload.get("response"))
        return _end(payload | response, mapping(response.get("meta")))
    if is_error(payload, name):
        return Event(error=True)
    if "message" in payload or "text" in payload:
        return _whole(payload)
    return None


def _content(message: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    content = mapping(message.get("content"))
    return Event(
        visible=characters(content.get("text")), hidden=characters(content.get("thinking"))
    )


def _plan(message: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    return Event(hidden=characters(message.get("tool_plan")))


def _tool(message: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    return Event(visible=_called(message.get("tool_calls")))


def _called(tool_calls: JSON) -> int:
    """Characters of tool calls: version 1 has name and parameters, without `function`."""
    found = 0
    for tool in mappings(tool_calls):
        function = mapping(tool.get("function")) or tool
        found += characters(function.get("name"))
        found += written(function.get("arguments") or function.get("parameters"))
    return found


def _text(message: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    return Event(visible=characters(payload.get("text")))


def _tool_chunk(message: dict[str, JSON], payload: dict[str, JSON]) -> Event:
    delta = payload.get("tool_call_delta")
    return Event(hidden=characters(payload.get("text")), visible=_called(delta))


_EVENTS = {
    "content-start": _content,
    "content-delta": _content,
    "tool-plan-delta": _plan,
    "tool-call-start": _tool,
    "tool-call-delta": _tool,
    "text-generation": _text,
    "tool-calls-chunk": _tool_chunk,
}


def _end(said: dict[str, JSON], reported: dict[str, JSON]) -> Event:
    reason = text(said.get("finish_reason"))
    error = bool(said.get("error")) or (reason or "").startswith("ERROR")
    return Event(usage=_usage(reported), finish=reason, finished=1, end=True, error=error)


def _whole(payload: dict[str, JSON]) -> Event:
    found = _end(payload, mapping(payload.get("usage") or payload.get("meta")))
    message = mapping(payload.get("message"))
    found.whole = True
    found.visible = characters(payload.get("text"))
    found.visible += _called(message.get("tool_calls") or payload.get("tool_calls"))
    found.hidden = characters(message.get("tool_plan"))
    for part in mappings(message.get("content")):
        found.visible += characters(part.get("text"))
        found.hidden += characters(part.get("thinking"))
    return found


def _usage(reported: dict[str, JSON]) -> Usage | None:
    """The counts beside the billed ones."""
    tokens = mapping(reported.get("tokens"))
    counts = Usage(
        prompt=count(tokens.get("input_tokens")),
        cached=count(reported.get("cached_tokens")),
        output=count(tokens.get("output_tokens")),
    )
    return counts if counts.prompt or counts.output else None


ROWS = (Interface("cohere", re.compile(r"/v[12]/chat/?$"), call, event),)
