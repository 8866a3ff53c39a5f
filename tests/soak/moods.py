"""What an exchange of the soak is like, and how it has to be told of."""

from dataclasses import dataclass, field
from typing import Literal

ROLE = b'data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
EVENT = b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
LAST = b'data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
FAILED = b'data: {"error":{"message":"out of memory","code":500}}\n\n'
WHOLE = (
    b'{"model":"m","choices":[{"index":0,"message":{"content":"words"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":2}}'
)
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

# How the upstream ends what it said: it keeps the connection, closes it, resets it, or says
# nothing until the proxy closes it.
End = Literal["keep", "close", "reset", "wait"]
# What the client does: it reads the whole answer, or goes at some point.
Way = Literal["reads", "uploads", "leaves", "resets", "abandons", "half"]


def chunk(data: bytes) -> bytes:
    """Data in the chunked coding; of empty data the last chunk and the end."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def sized(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A JSON answer with its length."""
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


@dataclass(frozen=True)
class Mood:
    """One kind of exchange.

    `said`: the upstream's answer, in pieces that are written one by one. `told`: the outcomes and
    codes that the request log may have for it.
    """

    said: tuple[bytes, ...]
    told: frozenset[tuple[str, int | None]]
    end: End = "keep"
    way: Way = "reads"
    stream: bool = True
    path: bytes = b"/v1/chat/completions"
    body: bool = field(default=True, kw_only=True)


def told(*outcomes: str, code: int | None = 200) -> frozenset[tuple[str, int | None]]:
    """These outcomes with one code."""
    return frozenset((outcome, code) for outcome in outcomes)


STREAM = (
    EVENTS + chunk(ROLE),
    chunk(EVENT),
    chunk(EVENT) + chunk(EVENT),
    chunk(LAST + DONE) + chunk(b""),
)
BEGUN = STREAM[:3]
COMPLETED = told("completed")
UNREACHABLE = told("unreachable", code=502)

GOOD = {
    "stream": Mood(STREAM, COMPLETED),
    "whole": Mood((sized(WHOLE),), COMPLETED, stream=False),
    "until close": Mood(
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", EVENT, LAST + DONE),
        COMPLETED,
        "close",
    ),
    "other": Mood((sized(b"{}"),), COMPLETED, stream=False, path=b"/v1/models", body=False),
    "upload": Mood(STREAM, COMPLETED, way="uploads"),
}
FAULTS = {
    "upstream: 500": Mood(
        (sized(b'{"error":{}}', b"500 Oh"),), told("rejected", code=500), stream=False
    ),
    "upstream: 429": Mood((sized(b"{}", b"429 Wait"),), told("rejected", code=429)),
    "upstream: error in the stream": Mood(
        (*BEGUN, chunk(FAILED) + chunk(b"")), told("error_midstream")
    ),
    "upstream: closes in mid-answer": Mood(BEGUN, told("truncated"), "close"),
    "upstream: resets in mid-answer": Mood(BEGUN, told("truncated"), "reset"),
    "upstream: length not kept": Mood((sized(WHOLE)[:-9],), told("truncated"), "close"),
    "upstream: no terminator": Mood((*BEGUN, chunk(b"")), told("truncated")),
    "upstream: closes without a word": Mood((), UNREACHABLE, "close"),
    "upstream: resets without a word": Mood((), UNREACHABLE, "reset"),
    "upstream: not HTTP": Mood((b"\0 not HTTP\r\n\r\n",), UNREACHABLE, "close"),
    "upstream: bad chunk": Mood((*BEGUN, b"zz\r\n"), told("truncated"), "wait"),
    "upstream: says more than it should": Mood(
        (sized(WHOLE) + b"more",), COMPLETED, "close", stream=False
    ),
    "upstream: nobody there": Mood((), UNREACHABLE, path=b"/dead/v1/chat/completions"),
    "client: leaves in mid-answer": Mood(BEGUN, told("client_closed"), "wait", "leaves"),
    "client: resets in mid-answer": Mood(BEGUN, told("client_closed"), "wait", "resets"),
    "client: leaves before the answer": Mood(
        (), told("client_closed", code=None), "wait", "abandons"
    ),
    "client: leaves in mid-request": Mood((), told("client_closed", code=None), "wait", "half"),
}
SILENT = "upstream: falls silent"
# It costs the time limit each, so that there are few of it.
RARE = {SILENT: Mood(BEGUN, told("timeout"), "wait")}
MOODS = GOOD | FAULTS | RARE
