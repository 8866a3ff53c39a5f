"""Raw JSON text read without parsing all of it: the objects in an array, known keys at both ends.

Pure; work is linear in the bytes, however they are cut; nothing raises.
"""

import re
from itertools import islice

# An element longer than this is left out: parsing it would stall every stream of the process.
MAX_ELEMENT_BYTES = 256 << 10
# Brackets and texts in one read: more are no answer, and would stop every stream as well.
_MAX_STEPS = 30_000

# Outside of a text only brackets and quotes matter. What is inside of one is taken in one step and
# never given back, as far as it is there.
_STRUCTURE = re.compile(rb'[\[\]{}"]')
_INSIDE = rb'(?:[^"\\]++|\\.)*+'
_IN_TEXT = re.compile(_INSIDE, re.DOTALL)


class Elements:
    """Cuts the objects out of a JSON array as they complete; other elements are dropped."""

    __slots__ = (
        "_depth",
        "_escaped",
        "_inside",
        "_parts",
        "_quoted",
        "_size",
        "_start",
        "overflowed",
    )

    def __init__(self) -> None:
        self.overflowed = False  # too many brackets: nothing more comes out
        self._depth = 0  # 1 is inside the array, 2 inside one of its elements
        self._quoted = self._escaped = False
        self._inside = False  # an object is unfinished,
        self._start = 0  # and begins here in the current read
        self._parts: list[bytes] = []  # what came of it before
        self._size = 0

    @property
    def open(self) -> bool:
        """Whether what came ends inside of the array."""
        return (self._depth > 0 or self._quoted) and not self.overflowed

    def feed(self, data: bytes) -> list[bytes]:
        """Take one read; return the objects that it completed."""
        found: list[bytes] = []
        at = self._start = steps = 0
        while at < len(data) and not self.overflowed:
            steps += 1
            self.overflowed = steps > _MAX_STEPS
            at = self._text(data, at) if self._quoted else self._structure(data, at, found)
        if self._inside:
            self._keep(data[self._start :])
        return found

    def _text(self, data: bytes, at: int) -> int:
        """Go to the end of a text, or of an escape that is cut in two; return where to go on."""
        if self._escaped:
            self._escaped = False
            return at + 1
        match = _IN_TEXT.match(data, at)
        end = match.end() if match else at
        self._quoted = data[end : end + 1] != b'"'
        self._escaped = data[end : end + 1] == b"\\"
        return end + 1

    def _structure(self, data: bytes, at: int, found: list[bytes]) -> int:
        """Go to the next bracket or quote; return where to go on."""
        match = _STRUCTURE.search(data, at)
        if match is None:
            return len(data)
        token = match[0]
        if token == b'"':
            self._quoted = True
        elif token in b"[{":
            self._depth += 1
            if self._depth == 2 and token == b"{":
                self._inside = True
                self._start = match.start()
        else:
            self._depth -= 1
            if self._depth == 1 and self._inside:
                self._inside = False
                self._keep(data[self._start : match.end()])
                found += self._taken()
        return match.end()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= MAX_ELEMENT_BYTES:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _taken(self) -> list[bytes]:
        """Take the finished object out; none if it was too long."""
        element = b"".join(self._parts)
        fits = self._size <= MAX_ELEMENT_BYTES
        self._parts.clear()
        self._size = 0
        return [element] if fits else []


def is_open(text: bytes) -> bool:
    """Whether a JSON text that begins with a bracket ends before that is closed."""
    elements = Elements()
    for start in range(0, len(text), _MAX_STEPS):
        elements.feed(text[start : start + _MAX_STEPS])
    return elements.open


# More values than this take so long to parse that every stream would wait.
_MAX_VALUES = 50_000
_SURELY_LIGHT_BYTES = 256 << 10
_MAX_BYTES = 4 << 20  # a gigabyte a second or two, at best


def is_heavy(text: bytes) -> bool:
    """Whether parsing a JSON text would hold the event loop up: many values, or megabytes."""
    if len(text) <= _SURELY_LIGHT_BYTES:
        return False
    if len(text) > _MAX_BYTES:
        return True
    return text.count(b",") + text.count(b"[") + text.count(b"{") > _MAX_VALUES


# What the formats look for at the top of a request or an answer. A quote inside a JSON string is
# escaped, so `"usage":` in the raw text is a key.
_KEYS = (
    "details",
    "done",
    "error",
    "eval_count",
    "eval_duration",
    "load_duration",
    "meta",
    "meta_info",
    "metrics",
    "model",
    "modelVersion",
    "n",
    "object",
    "prompt_eval_cached_count",
    "prompt_eval_count",
    "prompt_eval_duration",
    "stats",
    "status",
    "stop",
    "stop_type",
    "stream",
    "stream_options",
    "time_info",
    "timings",
    "tokens_evaluated",
    "tokens_predicted",
    "total_duration",
    "usage",
    "usageMetadata",
    "x_groq",
)
_KEY = re.compile(rb'(?<!\\)"(%s)"\s*:\s*' % "|".join(_KEYS).encode())


def edges(head: bytes, tail: bytes) -> bytes:
    """A JSON object of the known keys found in both ends of a long one, the last of each."""
    found: dict[bytes, bytes] = {}
    for text in (head, tail):
        last = {match[1]: match.end() for match in _KEY.finditer(text)}
        for key, start in last.items():
            value = _value(text, start)
            if value is not None:
                found[key] = value
    return b"{" + b",".join(b'"%s":%s' % pair for pair in found.items()) + b"}"


_SCALAR = re.compile(rb'"(?:[^"\\]|\\.){0,512}"|null|true|false|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
# A text that is cut off ends where the bytes do: else the search would begin again at each quote.
_TOKEN = re.compile(rb'"%b\\?+(?:"|\Z)|[{}\[\]]' % _INSIDE, re.DOTALL)
_MAX_VALUE_BYTES = 8192
_MAX_VALUE_TOKENS = 500  # what is looked for has some dozens


def _value(text: bytes, start: int) -> bytes | None:
    """The JSON scalar or object at `start`, None where it is neither, cut off or long."""
    if match := _SCALAR.match(text, start):
        return match[0] if match.end() < len(text) else None
    if text[start : start + 1] != b"{":
        return None
    depth = 0
    tokens = _TOKEN.finditer(text, start, start + _MAX_VALUE_BYTES)
    for token in islice(tokens, _MAX_VALUE_TOKENS):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"}]":
            depth -= 1
            if not depth:
                return text[start : token.end()]
    return None
