"""What servers write: short builders for the bytes of each wire format."""

import json
from typing import Any

DONE = b"data: [DONE]\n\n"
MODEL = "m-1"


def sse(payload: Any, name: str = "", end: str = "\n", gap: str = " ") -> bytes:
    """One server-sent event; a `str` or `bytes` payload goes out as it is."""
    head = f"event:{gap}{name}{end}" if name else ""
    return f"{head}data:{gap}{_written(payload)}{end}{end}".encode()


def line(payload: Any) -> bytes:
    """One JSON line."""
    return _written(payload).encode() + b"\n"


def body(payload: Any) -> bytes:
    """One JSON body."""
    return _written(payload).encode()


def _written(payload: Any) -> str:
    if isinstance(payload, bytes):
        return payload.decode()
    if isinstance(payload, str):
        return payload
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)


def chunk(delta: Any, finish: str | None = None, index: int = 0, **beside: Any) -> dict[str, Any]:
    """A `chat.completion.chunk` with one choice."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]} | (
        beside
    )


def role(**beside: Any) -> bytes:
    """The chunk that most servers begin with."""
    return sse(chunk({"role": "assistant", "content": ""}, **beside))


def said(content: str, **beside: Any) -> bytes:
    """Text."""
    return sse(chunk({"content": content}, **beside))


def thought(content: str, field: str = "reasoning_content", **beside: Any) -> bytes:
    """Reasoning."""
    return sse(chunk({field: content}, **beside))


def called(name: str = "", arguments: str = "") -> bytes:
    """A tool's name, or a piece of its arguments."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return sse(chunk({"tool_calls": [{"index": 0, "function": function}]}))


def finished(reason: str = "stop", **beside: Any) -> bytes:
    """The chunk that says why a choice ended."""
    return sse(chunk({}, reason, **beside))


def counts(prompt: int, output: int, **beside: Any) -> dict[str, Any]:
    """A `usage` object."""
    total = prompt + output
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": total} | beside


def used(prompt: int, output: int, **beside: Any) -> bytes:
    """The event that does nothing but report usage; `beside` goes into its `usage`."""
    return sse(
        {"id": "c", "model": MODEL, "choices": [], "usage": counts(prompt, output, **beside)}
    )


def completion(text: str, finish: str | None = None, index: int = 0, **beside: Any) -> bytes:
    """A `text_completion` chunk."""
    choice = {"index": index, "text": text, "finish_reason": finish}
    return sse(
        {"id": "c", "object": "text_completion", "model": MODEL, "choices": [choice]} | beside
    )


def reasoned(prompt: int, output: int, reasoning: int, total: int) -> bytes:
    """The same with reasoning tokens, and the total that shows how they are counted."""
    details = {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return used(prompt, output, **details | {"total_tokens": total})
