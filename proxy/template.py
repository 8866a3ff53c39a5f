"""Recognises the next read of a stream without parsing it.

Nearly every read of a token stream is one event that differs from the one before in nothing but
the text of its delta. A template is such a read with a hole for the text. It is learned by having
the real parser read it with two other texts in the hole; where that changes the number of
characters and nothing else, a read that fits, with what is the inside of a JSON string in the
hole, tells the characters of that string and nothing else.
"""

import re
from collections.abc import Callable
from itertools import islice

from orjson import JSONDecodeError, loads

from proxy.formats.event import Event

# Keys under which any interface sends text.
_TEXT = re.compile(
    rb'"(?:content|text|delta|reasoning|reasoning_content|response|thinking|partial_json|arguments)"'
    rb'\s*:\s*"(?=[^"\\]+")'
)
_ENDS = (b"}\n\n", b"}\n")
# What is like those before is short, and has its text in one of the first places.
_MAX_BYTES = 4 << 10
_MAX_PLACES = 4


class Template:
    """A read with a hole for its text.

    Attributes:
        prefix: what stands before the text, its opening quote included.
        suffix: what stands behind it, its closing quote included.
        hidden: the text is reasoning.
    """

    __slots__ = ("hidden", "prefix", "suffix")

    def __init__(self, prefix: bytes, suffix: bytes, hidden: bool) -> None:
        self.prefix = prefix
        self.suffix = suffix
        self.hidden = hidden

    def characters(self, data: bytes) -> int:
        """Characters of the text in a whole read; 0 for a read that does not fit."""
        if data.startswith(self.prefix) and data.endswith(self.suffix):
            try:
                return len(loads(data[len(self.prefix) - 1 : 1 - len(self.suffix)]))
            except JSONDecodeError:
                pass
        return 0


def learn(data: bytes, events: Callable[[bytes], list[Event]]) -> Template | None:
    """The template of a read that is one whole event; None if there is none.

    Args:
        events: all that a read of its own holds; raises nothing.
    """
    if len(data) > _MAX_BYTES or not data.endswith(_ENDS):
        return None
    for match in islice(_TEXT.finditer(data), _MAX_PLACES):
        prefix, suffix = data[: match.end()], data[data.index(b'"', match.end()) :]
        one, two = events(prefix + b"a" + suffix), events(prefix + b"bcd" + suffix)
        for hidden in (False, True):
            if one == [_plain(1, hidden, one)] and two == [_plain(3, hidden, one)]:
                return Template(prefix, suffix, hidden)
    return None


def _plain(characters: int, hidden: bool, like: list[Event]) -> Event:
    """An event that tells a text's length and nothing else, of the same choice and model."""
    model, index = (like[0].model, like[0].index) if like else (None, 0)
    return Event(
        visible=0 if hidden else characters,
        hidden=characters if hidden else 0,
        index=index,
        model=model,
    )
