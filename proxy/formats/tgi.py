"""Text Generation Inference: one token an event, the whole text once more in the last.

Source: TGI's OpenAPI document (`StreamResponse`, `StreamDetails`) and router/src. Triton's
generate extension (TensorRT-LLM) has the same paths with `text_input` and `text_output`.
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
    items,
    mapping,
    text,
)
from proxy.formats.prompt import documents


def call(body: dict[str, JSON], path: str) -> Call:
    """What a generate request asks for; at the root the body tells what it is for."""
    if path.strip("/") == "" and "inputs" not in body:
        return Call("other")
    given = body.get("inputs") or body.get("text_input")
    return Call(
        "tgi",
        text(body.get("model")) or _model(path),
        stream=path.rstrip("/").endswith("_stream") or body.get("stream") is True,
        prompt_characters=documents(given) or None,
    )


def _model(path: str) -> str | None:
    """The model that Triton's paths name: `/v2/models/NAME/generate_stream`."""
    match = re.search(r"/models/([^/]+)/", path)
    return match[1] if match else None


def event(payload: dict[str, JSON], name: str) -> Event:
    """One event, or a whole answer."""
    found = Event(
        visible=characters(payload.get("text_output")),
        model=text(payload.get("model_name")),
        end="text_output" in payload,  # nothing marks Triton's last event
        error=is_error(payload, name),
    )
    token = payload.get("token")
    whole = payload.get("generated_text")
    if isinstance(token, dict):
        found.tokens = 1
        if token.get("special") is not True:
            found.visible = characters(token.get("text"))
    else:
        found.visible += characters(whole)
    if whole is not None:
        found.end = True
        found.finished = 1
        _details(found, mapping(payload.get("details")))
    return found


def _details(event: Event, details: dict[str, JSON]) -> None:
    """What comes with the end where `parameters.details` was asked for."""
    event.finish = text(details.get("finish_reason"))
    prompt = count(details.get("input_length")) or len(items(details.get("prefill"))) or None
    counts = Usage(prompt=prompt, output=count(details.get("generated_tokens")))
    if counts.prompt or counts.output:
        event.usage = counts


_STREAM = re.compile(r"/generate_stream/?$")
_ROOT = re.compile(r"^/?$")

ROWS = (Interface("tgi", _STREAM, call, event), Interface("tgi", _ROOT, call, event))
