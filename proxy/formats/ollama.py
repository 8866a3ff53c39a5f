"""Ollama's own interface: JSON lines, streamed unless asked not to, counts in the last line.

Source: Ollama, docs/api.md and docs.ollama.com (usage). A count of 0 is left out by the server.
"""

import re

from proxy.formats.embeddings import call as embeddings_call
from proxy.formats.embeddings import prompt_usage
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
    mappings,
    text,
    written,
)
from proxy.formats.figures import durations
from proxy.formats.prompt import prompt


def chat_call(body: dict[str, JSON], path: str) -> Call:
    """What a chat request asks for."""
    return _call("ollama_chat", body, prompt(body, "messages"))


def generate_call(body: dict[str, JSON], path: str) -> Call:
    """What a generate request asks for."""
    return _call("ollama_generate", body, prompt(body, "system", "prompt", "suffix"))


def _call(api: str, body: dict[str, JSON], prompt_characters: int | None) -> Call:
    return Call(
        api,
        text(body.get("model")),
        stream=body.get("stream") is not False,
        prompt_characters=prompt_characters,
    )


def event(payload: dict[str, JSON], name: str) -> Event:
    """One line of chat or generate, or a whole answer."""
    message = payload.get("message")
    said = message if isinstance(message, dict) else payload
    found = Event(
        visible=characters(said.get("content")) + characters(payload.get("response")),
        hidden=characters(said.get("thinking")),
        model=text(payload.get("model")),
    )
    for call in mappings(said.get("tool_calls")):
        function = mapping(call.get("function"))
        found.visible += characters(function.get("name")) + written(function.get("arguments"))
    found.visible += bool(payload.get("image"))
    found.tokens = len(items(payload.get("logprobs"))) or None
    if "error" in payload:
        found.error = is_error(payload, name)
    if payload.get("done") is True:
        _done(found, payload)
    return found


def _done(event: Event, payload: dict[str, JSON]) -> None:
    event.end = True
    event.finished = 1
    event.finish = text(payload.get("done_reason"))
    event.usage = _usage(payload)
    event.engine = durations(payload)


def _usage(payload: dict[str, JSON]) -> Usage | None:
    counts = Usage(
        prompt=count(payload.get("prompt_eval_count")),
        cached=count(payload.get("prompt_eval_cached_count")),
        output=count(payload.get("eval_count")),
    )
    return counts if counts.prompt or counts.output else None


def embed_event(payload: dict[str, JSON], name: str) -> Event:
    """A whole answer of embed; `/api/embeddings` gives no counts."""
    return Event(
        model=text(payload.get("model")),
        usage=_usage(payload) or prompt_usage(payload),
        engine=durations(payload),
        error=is_error(payload, name),
    )


ROWS = (
    Interface("ollama_chat", re.compile(r"/api/chat/?$"), chat_call, event),
    Interface("ollama_generate", re.compile(r"/api/generate/?$"), generate_call, event),
    Interface("embeddings", re.compile(r"/api/embed(?:dings)?/?$"), embeddings_call, embed_event),
)
