"""OpenAI's responses: typed events, usage only at the end.

Source: OpenAI's API reference (responses, streaming events) and recordings of vLLM and llama.cpp.
"""

import re

from proxy.formats.event import JSON, Call, Event, Interface, characters, items, mapping, text
from proxy.formats.openai import is_error, usage


def call(body: dict[str, JSON], path: str) -> Call:
    """What a responses request asks for."""
    prompt = characters(body.get("instructions")) + characters(body.get("input"))
    return Call(
        "responses",
        text(body.get("model")),
        stream=body.get("stream") is True,
        prompt_characters=prompt or None,
    )


# Deltas of generated output. The `.done` events repeat the whole text and are not output.
_HIDDEN = {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}
_VISIBLE = {
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.mcp_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
    "response.shell_call_command.delta",
    "response.apply_patch_call_operation_diff.delta",
    "response.audio.delta",
    "response.audio.transcript.delta",
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
}
_ENDS = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
_FINISH = {"max_output_tokens": "length"}


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One typed event, or a whole response object."""
    kind = payload.get("type") or name
    if kind in _VISIBLE:
        delta = characters(payload.get("delta"))
        logprobs = payload.get("logprobs")
        tokens = len(logprobs) if isinstance(logprobs, list) and logprobs else None
        return Event(visible=delta, tokens=tokens)
    if kind in _HIDDEN:
        return Event(hidden=characters(payload.get("delta")))
    if kind == "response.output_item.added":
        # A tool's name comes whole, before its arguments.
        return Event(visible=_item_name(mapping(payload.get("item"))))
    response = payload.get("response")
    if isinstance(response, dict):
        return _response(response, str(kind))
    if payload.get("object") == "response":
        return _response(payload, "response.completed" if _ended(payload) else "")
    return Event(error=True) if is_error(payload, name) else None


def _item_name(item: dict[str, JSON]) -> int:
    called = item.get("type") in ("function_call", "custom_tool_call", "mcp_call")
    return characters(item.get("name")) if called else 0


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
    reported = response.get("usage")
    if isinstance(reported, dict):
        event.usage = usage(reported)
    event.whole = True
    event.visible, event.hidden = _written(response)
    return event


def _finish(response: dict[str, JSON]) -> str | None:
    """The reason in chat completions' words, as far as there is one."""
    reason = text(mapping(response.get("incomplete_details")).get("reason"))
    if reason:
        return _FINISH.get(reason, reason)
    status = text(response.get("status"))
    return "stop" if status in (None, "completed") else status


def _written(response: dict[str, JSON]) -> tuple[int, int]:
    """Characters of all output items: visible, reasoning."""
    visible = hidden = 0
    for item in map(mapping, items(response.get("output"))):
        if item.get("type") == "reasoning":
            hidden += characters(item.get("content")) or characters(item.get("summary"))
        else:
            visible += characters(item.get("content")) + _item_name(item)
            visible += characters(item.get("arguments")) + characters(item.get("input"))
    return visible, hidden


ROWS = (Interface("responses", re.compile(r"/responses(?:/[^/]+)?/?$"), call, event),)
