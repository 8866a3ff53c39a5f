"""OpenAI's responses: typed events, usage only at the end.

Source: OpenAI's API reference (responses, streaming events) and recordings of vLLM and llama.cpp.
"""

import re

from proxy.formats.event import (
    JSON,
    Call,
    Event,
    Interface,
    characters,
    is_error,
    items,
    mapping,
    mappings,
    text,
    written,
)
from proxy.formats.figures import in_chunk
from proxy.formats.prompt import prompt
from proxy.formats.usage import usage


def call(body: dict[str, JSON], path: str) -> Call:
    """What a responses request asks for."""
    return Call(
        "responses",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=prompt(body, "instructions", "input"),
    )


# Deltas of generated output. The `.done` events repeat the whole text and are not output, nor
# are the deltas of what a tool gave back (`shell_call_output_content`).
_HIDDEN = frozenset(
    f"response.{kind}.delta" for kind in ("reasoning_text", "reasoning_summary_text", "reasoning")
)
_VISIBLE = frozenset(
    f"response.{kind}.delta"
    for kind in (
        "output_text",
        "text",
        "refusal",
        "function_call_arguments",
        "custom_tool_call_input",
        "mcp_call_arguments",
        "code_interpreter_call_code",
        "shell_call_command",
        "apply_patch_call_operation_diff",
        "audio.transcript",
        "audio_transcript",
        "output_audio_transcript",
    )
)
_AUDIO = frozenset(("response.audio.delta", "response.output_audio.delta"))
_ENDS = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
)
_FINISH = {"max_output_tokens": "length"}


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One typed event, or a whole response object."""
    kind = payload.get("type") or name
    if not isinstance(kind, str):
        return None
    if kind in _VISIBLE:
        return Event(visible=characters(payload.get("delta")), tokens=_tokens(payload))
    if kind in _HIDDEN:
        delta = payload.get("delta")
        return Event(hidden=characters(mapping(delta).get("text") or delta))
    if kind in _AUDIO:
        return Event(visible=1 if payload.get("delta") else 0)
    if kind == "response.output_item.added":
        # A tool's name comes whole, before its arguments.
        return Event(visible=_item_name(mapping(payload.get("item"))))
    response = payload.get("response")
    if isinstance(response, dict):
        found = _response(response, kind)
        found.engine = in_chunk(payload)  # llama.cpp
        return found
    if payload.get("object") == "response":
        return _response(payload, "response.completed" if _ended(payload) else "")
    return Event(error=True) if is_error(payload, name) else None


def _tokens(payload: dict[str, JSON]) -> int | None:
    return len(items(payload.get("logprobs"))) or None


_CALLS = frozenset(("function_call", "custom_tool_call", "mcp_call"))


def _item_name(item: dict[str, JSON]) -> int:
    return characters(item.get("name")) if text(item.get("type")) in _CALLS else 0


def _ended(response: dict[str, JSON]) -> bool:
    return response.get("status") not in ("queued", "in_progress")


def _response(response: dict[str, JSON], kind: str) -> Event:
    """A response object: at the end of a stream with usage, else without."""
    event = Event(model=text(response.get("model")))
    if kind not in _ENDS:
        return event
    event.end = True
    event.finished = 1
    event.error = kind == "response.failed" or response.get("status") == "failed"
    event.finish = _finish(response)
    event.usage = usage(response.get("usage"))
    event.whole = True
    event.visible, event.hidden = _generated(response)
    return event


def _finish(response: dict[str, JSON]) -> str | None:
    """The reason in chat completions' words, as far as there is one."""
    reason = text(mapping(response.get("incomplete_details")).get("reason"))
    if reason:
        return _FINISH.get(reason, reason)
    status = text(response.get("status"))
    return "stop" if status in (None, "completed") else status


def _generated(response: dict[str, JSON]) -> tuple[int, int]:
    """Characters of all output items: visible, reasoning."""
    visible = hidden = 0
    for item in mappings(response.get("output")):
        if item.get("type") == "reasoning":
            hidden += characters(item.get("content")) or characters(item.get("summary"))
        else:
            visible += characters(item.get("content")) + _item_name(item)
            visible += written(item.get("arguments")) + written(item.get("input"))
    return visible, hidden


# Not the paths that only count or compact.
_PATH = re.compile(r"/responses(?:/(?!input_tokens|compact|render)[^/]+)?/?$")

ROWS = (Interface("responses", _PATH, call, event),)
