"""How long a prompt is, in characters: what the model is given to read, images and audio apart."""

from proxy.formats.event import JSON, characters, items, mapping, mappings, written

# Keys of a message or of a part of one, in any of the interfaces: under the first stands text or
# a list of parts, under the second what a tool was called with.
_TEXTS = frozenset(
    (
        "content",
        "function",
        "functionCall",
        "function_call",
        "message",
        "output",
        "parts",
        "refusal",
        "summary",
        "text",
        "thinking",
        "toolUse",
        "tool_calls",
    )
)
_OBJECTS = frozenset(("arguments", "input", "args", "parameters"))
_DEPTH = 6


def messages(value: JSON, depth: int = _DEPTH) -> int:
    """Characters of a text, of a list of messages, or of the parts of one; tool calls with them."""
    if isinstance(value, str):
        return len(value)
    if not depth:
        return 0
    if isinstance(value, list):
        return sum(messages(item, depth - 1) for item in value)
    if not isinstance(value, dict):
        return 0
    found = 0
    for key, inner in value.items():
        if key in _TEXTS:
            found += messages(inner, depth - 1)
        elif key in _OBJECTS:
            found += written(inner)
    return found


def prompt(body: dict[str, JSON], *keys: str) -> int | None:
    """Characters under the keys of a request, and of the tools that it offers."""
    found = sum(messages(body.get(key)) for key in keys)
    return found + written(body.get("tools")) or None


def echoed(body: dict[str, JSON]) -> int:
    """Characters that vLLM's chat repeats first with `echo`: of the last message, if the answer
    goes on in that message's role."""
    last = mappings(body.get("messages"))[-1:]
    if body.get("echo") is not True or not last:
        return 0
    continued = body.get("add_generation_prompt") is False
    return characters(last[0].get("content")) if continued or _assistant(last[0]) else 0


def _assistant(message: dict[str, JSON]) -> bool:
    return message.get("role") == "assistant"


def documents(value: JSON) -> int:
    """Characters of what is to be embedded or ranked: a text, texts, or objects with a text."""
    return sum(map(_document, items(value))) if isinstance(value, list) else _document(value)


def _document(value: JSON) -> int:
    return characters(mapping(value).get("text") or mapping(value).get("content") or value)
