"""Chunks of an answer to payloads: server-sent events, JSON lines, event-stream frames, one JSON.

Pure and incremental: every class takes `bytes` as they come off the socket, cut anywhere, and
gives whole payloads. Work is linear in the bytes, however small the cuts. Nothing here raises on
any input; what cannot be read is dropped, what is longer than a limit sets `overflowed`.
"""

import re
from functools import lru_cache
from typing import NamedTuple, Protocol

from proxy.eventstream import Frame, Frames
from proxy.jsontext import Elements, edges, is_open

# An unfinished event longer than this is not metered any more (it is still forwarded).
MAX_EVENT_BYTES = 1 << 20
# A JSON body up to this size is parsed whole; of a longer one only both ends are kept, since
# parsing it would stall every stream of the process.
MAX_BODY_BYTES = 256 << 10
EDGE_BYTES = 64 << 10

# A read may have so many lines, and one more for so many bytes. A stream of tokens has fewer, even
# where it keeps its connection alive; each would cost time, though there be nothing in it.
_FEW_LINES = 1000
_LINE_BYTES = 16

# WHATWG HTML, 9.2.5: lines end with CRLF, LF or CR; a blank line ends an event.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_BOM = b"\xef\xbb\xbf"


class Payload(NamedTuple):
    """One event's data (`data`, bytes of JSON as a rule) and its type (`name`, `b""` if none)."""

    data: bytes
    name: bytes = b""


class Framing(Protocol):
    """What the meter needs of a framing."""

    overflowed: bool

    @property
    def between_events(self) -> bool:
        """Whether what came ended with the end of an event, so that the next read begins one."""
        ...

    def feed(self, data: bytes) -> list[Payload]:
        """Take one read; return the payloads that it completed."""
        ...

    def end(self) -> list[Payload]:
        """The answer ended cleanly: return what was still unfinished."""
        ...


def is_flood(data: bytes) -> bool:
    """Whether a read is made of line ends, as no stream of tokens is."""
    if len(data) < _FEW_LINES:
        return False
    return data.count(b"\n") + data.count(b"\r") > _FEW_LINES + len(data) // _LINE_BYTES


class Blocks:
    """Cuts a server-sent event stream into raw event blocks, their blank line included."""

    __slots__ = ("_after_cr", "_parts", "_size", "_tail")

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the unfinished block, without its last bytes,
        self._tail = b""  # which can be the beginning of its blank line
        self._size = 0
        self._after_cr = False

    @property
    def pending(self) -> int:
        """Bytes of the unfinished block."""
        return self._size + len(self._tail)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the blocks that they completed."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":  # second half of a CRLF whose CR already ended the event
                return [b"\n", *self.feed(data[1:])]
        text = self._tail + data
        # Nearly every read of a real server is one or more whole events that end with LF LF.
        if not self._size and text.endswith(b"\n\n") and b"\r" not in text:
            self._tail = b""
            return [block + b"\n\n" for block in text[:-2].split(b"\n\n")]
        return self._cut(text)

    def _cut(self, text: bytes) -> list[bytes]:
        blocks: list[bytes] = []
        start = 0
        for match in _EVENT_END.finditer(text):
            blocks.append(text[start : match.end()])
            start = match.end()
        if blocks:
            blocks[0] = b"".join(self._parts) + blocks[0]
            self._parts.clear()
            self._size = 0
            self._after_cr = start == len(text) and text.endswith(b"\r")
        keep = max(start, len(text) - 3)
        if keep > start:
            self._parts.append(text[start:keep])
            self._size += keep - start
        self._tail = text[keep:]
        return blocks

    def rest(self) -> bytes:
        """Take the unfinished block out."""
        rest = b"".join(self._parts) + self._tail
        self._parts.clear()
        self._size, self._tail = 0, b""
        return rest


def payload(block: bytes) -> Payload | None:
    """Fields of one raw event block; None where it has no data (a comment, a lone id)."""
    if block.startswith(b"data: "):
        line = block[6:].rstrip(b"\r\n")
        if line and b"\n" not in line and b"\r" not in line:
            return Payload(line)
    data: list[bytes] = []
    name = b""
    # bytes.splitlines cuts at CR, LF and CRLF, the very set of the standard; str's cuts at U+2028.
    for line in block.removeprefix(_BOM).splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"error":  # llama.cpp before September 2025
            name = b"error"
            data.append(value)
    joined = b"\n".join(data)
    return Payload(joined, name) if joined else None


class ServerSentEvents:
    """`text/event-stream`, WHATWG HTML section 9.2."""

    __slots__ = ("_blocks", "overflowed")

    def __init__(self) -> None:
        self._blocks = Blocks()
        self.overflowed = False

    @property
    def between_events(self) -> bool:
        """As `Framing` says."""
        return not self._blocks.pending

    def feed(self, data: bytes) -> list[Payload]:
        """Take one read; return the events that it completed."""
        self.overflowed = self.overflowed or is_flood(data)
        if self.overflowed:
            return []
        found = [p for block in self._blocks.feed(data) if (p := payload(block)) is not None]
        if self._blocks.pending > MAX_EVENT_BYTES:
            self.overflowed = True
            self._blocks.rest()
        return found

    def end(self) -> list[Payload]:
        """The last event's blank line may be missing."""
        last = payload(self._blocks.rest())
        return [] if last is None else [last]


class JSONLines:
    """`application/x-ndjson`: one JSON text a line."""

    __slots__ = ("_parts", "_size", "overflowed")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.overflowed = False

    @property
    def between_events(self) -> bool:
        """As `Framing` says."""
        return not self._size

    def feed(self, data: bytes) -> list[Payload]:
        """Take one read; return the lines that it completed."""
        self.overflowed = self.overflowed or is_flood(data)
        if self.overflowed:
            return []
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > MAX_EVENT_BYTES:
            self.overflowed = True
            self._parts.clear()
        return [Payload(line) for line in map(bytes.strip, lines) if line]

    def end(self) -> list[Payload]:
        """The last line's end may be missing."""
        line = b"".join(self._parts).strip()
        self._parts.clear()
        return [Payload(line)] if line else []


class EventStream:
    """`application/vnd.amazon.eventstream`: the payloads of frames, named by their event type."""

    __slots__ = ("_frames", "_told", "overflowed")

    def __init__(self) -> None:
        self._frames = Frames()
        self._told = False
        self.overflowed = False

    @property
    def between_events(self) -> bool:
        """Never, for all that is asked: no read is like another."""
        return False

    @property
    def broken(self) -> bool:
        """Whether a frame was damaged, and nothing behind it could be read."""
        return self._frames.broken

    def feed(self, data: bytes) -> list[Payload]:
        """Take one read; return the frames that it completed. A broken one has no JSON in it."""
        if self.overflowed:
            return []
        found = [_frame_payload(frame) for frame in self._frames.feed(data)]
        if self._frames.broken and not self._told:
            self._told = True
            found.append(Payload(b"{broken frame"))
        if self._frames.pending > MAX_EVENT_BYTES:
            self.overflowed = True
            self._frames = Frames()
        return found

    def end(self) -> list[Payload]:
        """An unfinished frame is of no use."""
        return []


def _frame_payload(frame: Frame) -> Payload:
    failed = frame.headers.get(b":message-type") in (b"exception", b"error")
    name = b"error" if failed else frame.headers.get(b":event-type", b"")
    return Payload(frame.payload or b"{}", name)


class Body:
    """One JSON text, complete at the end, or the objects of an array as they complete.

    Of a long text the middle is let go (see `jsontext.edges`).
    """

    __slots__ = ("_elements", "_head", "_parts", "_size", "_tail", "overflowed")

    def __init__(self) -> None:
        self._elements: Elements | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = bytearray()
        self.overflowed = False

    @property
    def between_events(self) -> bool:
        """Never, for all that is asked: no read is like another."""
        return False

    @property
    def unfinished(self) -> bool:
        """Whether what came ends inside of the text, as far as that can be told; before `end`."""
        if self._elements is not None:
            return self._elements.open
        if self._head:
            return self._head.startswith(b"{") and not self._tail.rstrip().endswith(b"}")
        body = b"".join(self._parts)
        return body.startswith(b"{") and is_open(body)

    def feed(self, data: bytes) -> list[Payload]:
        """Take one read; return the elements that it completed. A lone text comes at the end."""
        if not self._size:  # some servers send blanks to keep the connection alive
            data = data.lstrip()
            if data.startswith(b"["):
                self._elements = Elements()
        self._size += len(data)
        if self._elements is not None:
            found = [Payload(element) for element in self._elements.feed(data)]
            self.overflowed = self._elements.overflowed
            return found
        if self._size <= MAX_BODY_BYTES:
            self._parts.append(data)
        elif not self._head:
            whole = b"".join([*self._parts, data])
            self._parts.clear()
            self._head, self._tail = whole[:EDGE_BYTES], bytearray(whole[EDGE_BYTES:])
        else:
            self._tail += data
        if len(self._tail) > 2 * MAX_BODY_BYTES:
            del self._tail[:-EDGE_BYTES]
        return []

    def end(self) -> list[Payload]:
        """The text, or a smaller one made of what its ends tell."""
        if self._head:
            return [Payload(edges(self._head, bytes(self._tail[-EDGE_BYTES:])))]
        body = b"".join(self._parts).strip()
        self._parts.clear()
        return [Payload(body)] if body else []


@lru_cache(256)
def media_type(content_type: str) -> str:
    """`type/subtype` of a Content-Type value, lower case, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


_STREAMS: dict[str, type[ServerSentEvents] | type[JSONLines] | type[EventStream]] = {
    "text/event-stream": ServerSentEvents,
    "application/x-ndjson": JSONLines,
    "application/ndjson": JSONLines,
    "application/jsonl": JSONLines,
    "application/stream+json": JSONLines,
    "application/vnd.amazon.eventstream": EventStream,
}


def is_stream(content_type: str) -> bool:
    """Whether an answer of this Content-Type is a stream of events."""
    return media_type(content_type) in _STREAMS


def framing_of(content_type: str) -> Framing | None:
    """The framing of an answer by its Content-Type; None where nothing in it can be read."""
    kind = media_type(content_type)
    if kind in _STREAMS:
        return _STREAMS[kind]()
    if kind == "application/json" or kind.endswith("+json"):
        return Body()
    return None
