"""Asks an upstream for token counts that the client did not ask for, and takes them out again.

OpenAI's `stream_options.include_usage` adds one event to a stream, with `choices` empty and a
`usage` object. It is asked for by an edit of the request's bytes that leaves all others as they
were, and exactly that event is cut out of the answer.
"""

import json
import re

import orjson

from proxy.formats.openai import chat_event
from proxy.framing import MAX_EVENT_BYTES, Blocks, is_flood, payload
from proxy.jsontext import is_heavy

_DECODER = json.JSONDecoder()
_MAX_KEYS = 1000  # of an object; to go through more would hold all streams up
_SPACE = re.compile(r"[ \t\n\r]*")
_ASKED = '{"include_usage":true}'


def ask_usage(body: bytes) -> bytes | None:
    """The same JSON object asking for usage; None where it cannot be edited.

    Only the value of `stream_options.include_usage` changes, or what lacks of it is added.
    """
    if b"stream_options" not in body:  # then the body need not be read
        head, brace, tail = body.rpartition(b"}")
        comma = b"" if head.rstrip().endswith(b"{") else b","
        added = b'%b"stream_options":%b' % (comma, _ASKED.encode())
        return head + added + brace + tail if brace else None
    if is_heavy(body):  # to find the place would hold all streams up
        return None
    try:
        source = body.decode()
        start, end, before = _place(source, "stream_options")
        options = source[start:end]
        if options in ("", "null"):
            options = _ASKED
        else:
            at, to, name = _place(options, "include_usage")
            options = f"{options[:at]}{name}true{options[to:]}"
    except (ValueError, RecursionError):
        return None
    return f"{source[:start]}{before}{options}{source[end:]}".encode()


def _place(source: str, key: str) -> tuple[int, int, str]:
    """Start and end of the value of a JSON object's `key`, and what is to stand before it.

    Where the object has no such key, they are where it can be added. Raises: ValueError.
    """

    def skip(at: int) -> int:
        match = _SPACE.match(source, at)
        return match.end() if match else at

    at = skip(0)
    if source[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    after = skip(at + 1)
    if source[after : after + 1] == "}":
        return after, after, f'"{key}":'
    found = None
    for _ in range(_MAX_KEYS):
        name, at = _DECODER.raw_decode(source, skip(at + 1))
        start = skip(skip(at) + 1)
        _, at = _DECODER.raw_decode(source, start)
        if name == key:  # of several the last one counts
            found = (start, at, "")
        at = skip(at)
        if source[at : at + 1] != ",":
            return found or (at, at, f',"{key}":')
    raise ValueError("too many keys")


# In JSON that is written over several lines of data, the next line's beginning may stand between.
_GAP = rb"(?:\s|data:)*"
_EMPTY_CHOICES = re.compile(rb'"choices"%b:%b\[%b\]' % (_GAP, _GAP, _GAP))
_ENDS = (b"\n\n", b"\r\n\r\n")


class Withdrawal:
    """Takes events that only report usage out of a server-sent event stream.

    Whole reads without such an event pass as they are. Of a read that ends inside an event the
    unfinished part is held until the rest is there: a client can do nothing with it before. After
    an event longer than `framing.MAX_EVENT_BYTES`, or a flood of lines, everything passes.
    """

    __slots__ = ("_blocks", "_over", "_withdrawn")

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._withdrawn = False  # the last block was
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """What of one read may go on to the client now, perhaps nothing."""
        if self._over:
            return data
        inside = self._withdrawn or self._blocks.pending
        if not inside and data.endswith(_ENDS) and not _EMPTY_CHOICES.search(data):
            return data
        if is_flood(data):
            self._over = True
            return self._blocks.rest() + data
        kept: list[bytes] = []
        for block in self._blocks.feed(data):
            if block != b"\n":  # that is the rest of a CRLF whose CR already ended the last one
                self._withdrawn = _reports_usage_only(block)
            if not self._withdrawn:
                kept.append(block)
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
        and not chat_event(event, found.name.decode("latin-1")).error
    )
