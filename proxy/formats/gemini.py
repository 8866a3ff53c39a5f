"""Google's `generateContent` and `streamGenerateContent`: whole answers that grow by parts.

Source: Google's API reference (generateContent, UsageMetadata) and recordings. Each event counts
the tokens so far; thoughts are counted beside the candidates. Without `alt=sse` the events are the
elements of one JSON array. There is no terminator.
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
    """What is asked for; the path says which model and whether to stream."""
    options = mapping(body.get("generationConfig") or body.get("generation_config"))
    return Call(
        "gemini",
        _model(path),
        stream=":streamGenerateContent" in path,
        prompt_characters=prompt(body, "contents", "systemInstruction", "system_instruction"),
        choices=max(1, count(options.get("candidateCount")) or 1),
    )


def _model(path: str) -> str | None:
    """`gemini-x` of `/v1beta/models/gemini-x:streamGenerateContent`."""
    match = re.search(r"/([^/:]+):[A-Za-z]+$", path)
    return match[1] if match else None


def event(payload: dict[str, JSON], name: str) -> Event:
    """One event or array element, or a whole answer."""
    found = Event(model=text(payload.get("modelVersion")), error=is_error(payload, name))
    for candidate in mappings(payload.get("candidates")):
        found.index = count(candidate.get("index")) or found.index
        for part in mappings(mapping(candidate.get("content")).get("parts")):
            _part(found, part)
        if reason := text(candidate.get("finishReason")):
            found.finish = reason
            found.finished += 1
    if blocked := text(mapping(payload.get("promptFeedback")).get("blockReason")):
        found.finish = blocked
        found.end = True
    found.usage = _usage(payload.get("usageMetadata"))
    if found.usage is not None and (found.visible or found.hidden):
        found.so_far = found.usage.output or None
    return found


def _part(event: Event, part: dict[str, JSON]) -> None:
    """Text, thought, or something called or made. What code printed is not generated."""
    if part.get("thought") is True:
        event.hidden += characters(part.get("text"))
        return
    event.visible += characters(part.get("text"))
    called = mapping(part.get("functionCall"))
    event.visible += characters(called.get("name")) + written(called.get("args"))
    event.visible += characters(mapping(part.get("executableCode")).get("code"))
    event.visible += bool(part.get("inlineData"))


def _usage(reported: JSON) -> Usage | None:
    """Counts so far; None where there are none, as in metadata of traffic only."""
    if not isinstance(reported, dict):
        return None
    prompt_tokens = count(reported.get("promptTokenCount"))
    tools = count(reported.get("toolUsePromptTokenCount"))
    answer = count(reported.get("candidatesTokenCount"))
    thoughts = count(reported.get("thoughtsTokenCount"))
    if not (prompt_tokens or answer or thoughts):
        return None
    return Usage(
        prompt=None if prompt_tokens is None else prompt_tokens + (tools or 0),
        cached=count(reported.get("cachedContentTokenCount")),
        output=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        reasoning=thoughts,
    )


def embed_call(body: dict[str, JSON], path: str) -> Call:
    """What an embeddings request asks for, one or a batch."""
    requests = [body, *mappings(body.get("requests"))]
    length = sum(prompt(request, "content") or 0 for request in requests)
    return Call("embeddings", _model(path), prompt_characters=length or None)


def embed_event(payload: dict[str, JSON], name: str) -> Event:
    """A whole answer: no counts."""
    return Event(error=is_error(payload, name))


ROWS = (
    Interface("gemini", re.compile(r":(?:streamG|g)enerateContent$"), call, event),
    Interface("embeddings", re.compile(r":(?:batchE|e)mbedContents?$"), embed_call, embed_event),
)
