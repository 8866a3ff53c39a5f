"""Speech to text and text to speech.

Source: OpenAI's API reference (audio, streaming events) and vLLM's transcriptions, which stream in
the shape of chat chunks. A form (`multipart/form-data`) is not read, so neither are its model and
its `stream`. Audio itself has no events; some models bill seconds, which are not tokens.
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
    text,
)
from proxy.formats.openai import chat_event
from proxy.formats.usage import usage


def call(body: dict[str, JSON], path: str) -> Call:
    """What is asked for, where the request is JSON: speech, and transcriptions of some clouds."""
    length = characters(body.get("input")) + characters(body.get("instructions"))
    return Call(
        "audio",
        text(body.get("model")),
        stream=body.get("stream") is True or body.get("stream_format") == "sse",
        prompt_characters=length or None,
    )


def event(payload: dict[str, JSON], name: str) -> Event | None:
    """One typed event or chunk, or a whole transcription."""
    kind = payload.get("type") or name
    if kind == "transcript.text.delta":
        tokens = len(items(payload.get("logprobs"))) or None
        return Event(visible=characters(payload.get("delta")), tokens=tokens)
    if kind == "speech.audio.delta":
        return Event(visible=1 if payload.get("audio") else 0)
    if kind in ("transcript.text.done", "speech.audio.done"):
        return _whole(payload)
    if "choices" in payload:
        return chat_event(payload, name)
    if is_error(payload, name):
        return Event(error=True)
    return _whole(payload) if "text" in payload else None


def _whole(payload: dict[str, JSON]) -> Event:
    """All of the text, with usage where it is counted in tokens."""
    return Event(
        visible=characters(payload.get("text")),
        whole=True,
        model=text(payload.get("model")),
        usage=usage(mapping(payload.get("usage"))),
        finished=1,
        end=True,
    )


_PATH = re.compile(r"/audio/(?:transcriptions|translations|speech)/?$")

ROWS = (Interface("audio", _PATH, call, event),)
