"""Amazon Bedrock: converse and invoke, streamed as frames (see `proxy.eventstream`) or whole.

Source: AWS's API reference (Converse, ConverseStream, InvokeModelWithResponseStream, TokenUsage)
and its pages on each provider's models. A frame's event type is the name of its payload. Invoke
wraps the provider's own JSON in base64 and adds its own counts to the last.
"""

import base64
import binascii
import re
from urllib.parse import unquote

import orjson

from proxy.formats import anthropic, openai
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
from proxy.formats.figures import Names, figures
from proxy.formats.prompt import prompt


def call(body: dict[str, JSON], path: str) -> Call:
    """What is asked for; the path says which model and whether to stream."""
    match = re.search(r"/model/(.+)/[^/]+$", path)
    length = prompt(body, "system", "messages", "prompt", "inputText", "message")
    return Call(
        "bedrock",
        unquote(match[1]) if match else None,
        stream="stream" in path.rsplit("/", 1)[-1],
        prompt_characters=length,
    )


def converse_event(payload: dict[str, JSON], name: str) -> Event | None:
    """One frame of a converse stream, or a whole answer."""
    if name == "contentBlockDelta":
        visible, hidden = _block(mapping(payload.get("delta")))
        return Event(visible=visible, hidden=hidden)
    if name == "contentBlockStart":
        visible, hidden = _block(mapping(payload.get("start")))
        return Event(visible=visible, hidden=hidden)
    if name == "messageStop":
        return Event(finish=text(payload.get("stopReason")), finished=1)
    if name == "metadata":
        return _metadata(payload)
    if is_error(payload, name):
        return Event(error=True)
    return _converse(payload) if "output" in payload else None


def _block(block: dict[str, JSON]) -> tuple[int, int]:
    """Characters of a content block or of a part of one: visible, reasoning."""
    tool = mapping(block.get("toolUse"))
    visible = characters(block.get("text"))
    visible += characters(tool.get("name")) + written(tool.get("input"))
    thought = mapping(block.get("reasoningContent"))
    hidden = characters(mapping(thought.get("reasoningText")).get("text") or thought.get("text"))
    return visible, hidden + bool(thought.get("redactedContent"))


_METRICS: Names = {"latencyMs": ("total_seconds", 1e-3)}


def _metadata(payload: dict[str, JSON]) -> Event:
    return Event(
        usage=_usage(mapping(payload.get("usage"))),
        engine=figures(payload.get("metrics"), _METRICS),
        end=True,
    )


def _usage(reported: dict[str, JSON]) -> Usage | None:
    """Converse's counts: cached tokens are beside the input tokens."""
    counts = Usage(
        prompt=count(reported.get("inputTokens")),
        cached=first(reported, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_written=first(reported, "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        output=count(reported.get("outputTokens")),
        cached_beside=True,
    )
    return counts if counts.prompt or counts.cached or counts.output else None


def _converse(payload: dict[str, JSON]) -> Event:
    found = _metadata(payload)
    found.whole = True
    found.finished = 1
    found.finish = text(payload.get("stopReason"))
    message = mapping(mapping(payload.get("output")).get("message"))
    for block in mappings(message.get("content")):
        visible, hidden = _block(block)
        found.visible += visible
        found.hidden += hidden
    return found


def invoke_event(payload: dict[str, JSON], name: str) -> Event | None:
    """One frame of an invoke stream, or a whole answer in the provider's shape."""
    if isinstance(payload.get("bytes"), str):
        payload = _unwrapped(payload["bytes"])
    elif is_error(payload, name):
        return Event(error=True)
    found = _provider(payload)
    metrics = mapping(payload.get("amazon-bedrock-invocationMetrics"))
    if metrics:
        found.usage = _invoke_usage(metrics, found.usage)
        found.engine = figures(metrics, _INVOCATION)
        found.end = True
    return found


def _unwrapped(encoded: str) -> dict[str, JSON]:
    try:
        return mapping(orjson.loads(base64.b64decode(encoded)))
    except (binascii.Error, ValueError):
        return {}


_INVOCATION: Names = {
    "firstByteLatency": ("ttft_seconds", 1e-3),
    "invocationLatency": ("total_seconds", 1e-3),
}


def _invoke_usage(metrics: dict[str, JSON], provider: Usage | None) -> Usage | None:
    counts = Usage(
        prompt=count(metrics.get("inputTokenCount")),
        cached=first(metrics, "cacheReadInputTokenCount"),
        cache_written=first(metrics, "cacheWriteInputTokenCount"),
        output=count(metrics.get("outputTokenCount")),
        cached_beside=True,
    )
    return counts if counts.prompt or counts.output else provider


def _provider(payload: dict[str, JSON]) -> Event:
    """The providers' own shapes."""
    if "choices" in payload:
        return openai.chat_event(payload, "")
    for kind in _NOVA:  # Nova streams converse's events, each under its name
        if isinstance(payload.get(kind), dict):
            return converse_event(payload[kind], kind) or Event()
    if "output" in payload:
        return converse_event(payload, "") or Event()
    if "type" in payload or "content" in payload:
        return anthropic.event(payload, "") or Event()
    return _plain(payload)


_NOVA = ("contentBlockDelta", "contentBlockStart", "messageStop", "metadata")


def _plain(payload: dict[str, JSON]) -> Event:
    """Text and counts side by side: Meta, Titan (`outputText`), Mistral (`outputs`)."""
    found = Event()
    for said in (payload, *mappings(payload.get("results")), *mappings(payload.get("outputs"))):
        found.visible += sum(
            characters(said.get(key)) for key in ("generation", "outputText", "text")
        )
        reason = text(said.get("stop_reason")) or text(said.get("completionReason"))
        if reason:
            found.finish = reason
            found.finished += 1
    counts = Usage(
        prompt=first(payload, "prompt_token_count", "inputTextTokenCount"),
        output=first(payload, "generation_token_count", "totalOutputTextTokenCount"),
    )
    if counts.prompt or counts.output:
        found.usage = counts
    found.so_far = counts.output if found.visible and counts.output else None
    return found


# From the first `/model/` on, and not from each of them again.
_CONVERSE = re.compile(r"^(?>.*?/model/).+/converse(?:-stream)?$")
_INVOKE = re.compile(r"^(?>.*?/model/).+/invoke(?:-with-response-stream)?$")

ROWS = (
    Interface("bedrock", _CONVERSE, call, converse_event),
    Interface("bedrock", _INVOKE, call, invoke_event),
)
