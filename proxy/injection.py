"""Asks an upstream for token counts that the client did not ask for, and takes them out again.

OpenAI's `stream_options.include_usage` adds one event to a stream, with `choices` empty and a
`usage` object. It is asked for by an edit of the request's bytes that leaves all others as they
were, and exactly that event is cut out of the answer.
"""

import json
import re

import orjson

from proxy.framing import MAX_EVENT_BYTES, Blocks, payload

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_ASKED = b'{"include_usage":true}'


def ask_usage(body: bytes) -> bytes | None:
    """The same JSON object asking for usage; None where it cannot be edited.

    Only the value of `stream_options` changes (other keys in it are kept) or is added at the end.
    """
    if b"stream_options" not in body:
        end = body.rfind(b"}")
        return b'%b,"stream_options":%b%b' % (body[:end], _ASKED, body[end:]) if end > 0 else None
    try:
        source = body.decode()
        span, end = _find(source)
        options = (json.loads(source[span[0] : span[1]]) if span else None) or {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(options, dict):
        return None
    edited = json.dumps(options | {"include_usage": True}, ensure_ascii=False)
    if span is None:  # the words stand in a text, or deeper
        return f'{source[:end]},"stream_options":{edited}{source[end:]}'.encode()
    return (source[: span[0]] + edited + source[span[1] :]).encode()


def _find(source: str) -> tuple[tuple[int, int] | None, int]:
    """Where the value of the top level's `stream_options` stands, and its closing brace."""

    def skip(at: int) -> int:
        match = _SPACE.match(source, at)
        return match.end() if match else at

    at = skip(0)
    span = None
    if source[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    while True:
        key, at = _DECODER.raw_decode(source, skip(at + 1))
        start = skip(skip(at) + 1)
        _, at = _DECODER.raw_decode(source, start)
        if key == "stream_options":
            span = (start, at)
        at = skip(at)
        if source[at : at + 1] != ",":
            return span, at


_EMPTY_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_ENDS = (b"\n\n", b"\r\n\r\n")


class Withdrawal:
    """Takes events that only report usage out of a server-sent event stream.

    Whole reads without such an event pass as they are. Of a read that ends inside an event the
    unfinished part is held until the rest is there: a client can do nothing with it before. After
    an event longer than `framing.MAX_EVENT_BYTES` everything passes, so that memory stays flat.
    """

    __slots__ = ("_blocks", "_over")

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """What of one read may go on to the client now, perhaps nothing."""
        if self._over:
            return data
        if not self._blocks.pending and data.endswith(_ENDS) and not _EMPTY_CHOICES.search(data):
            return data
        kept = [block for block in self._blocks.feed(data) if not _reports_usage_only(block)]
        if self._blocks.pending > MAX_EVENT_BYTES:
            self._over = True
            kept.append(self._blocks.rest())
        return b"".join(kept)

    def end(self) -> bytes:
        """The answer ended cleanly: what is left for the client."""
        rest = self._blocks.rest()
        return b"" if _reports_usage_only(rest) else rest


def _reports_usage_only(block: bytes) -> bool:
    if not _EMPTY_CHOICES.search(block):
        return False
    found = payload(block)
    if found is None:
        return False
    try:
        event = orjson.loads(found.data)
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(event, dict)
        and event.get("choices") == []
        and isinstance(event.get("usage"), dict)
    )
