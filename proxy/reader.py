"""The body of an answer, read by read, to events: decoding, framing, JSON, the interface's format.

Pure and total: whatever the bytes and however they are cut, nothing raises and no byte is parsed
twice. What cannot be read is said by `unread`, `failed`.
"""

import json
import re

import orjson

from proxy.encoding import Decoder, Undecodable, decoder
from proxy.formats.event import JSON, Event
from proxy.formats.event import Reader as EventReader
from proxy.framing import Body, EventStream, Framing, Payload, framing_of, is_stream
from proxy.jsontext import is_heavy
from proxy.template import Template, learn

# More than servers of tokens put into one read; to parse them would stop all other streams.
_MAX_PAYLOADS = 8000
# Decoded bytes are looked at in pieces as large as reads can be.
_PIECE_BYTES = 256 << 10

# A stream whose events keep changing shape, or tell more than a text, is parsed to its end.
_MAX_LESSONS = 8
_LESSONS_LOST = 3  # with each event that tells more
_DONE = b"[DONE]"


class Reader:
    """Reads one answer: `open`, then each read, then `end`.

    Args:
        event: the interface's reader of one payload.
        stateless: what it says of a payload does not depend on those before.
    """

    __slots__ = (
        "_alone",
        "_content_type",
        "_decoder",
        "_event",
        "_framing",
        "_lessons",
        "_template",
        "done",
        "failed",
        "hidden",
        "unread",
    )

    def __init__(self, event: EventReader, stateless: bool) -> None:
        self._event = event
        self._framing: Framing | None = None
        self._decoder: Decoder | None = None
        self._content_type = ""
        self._template: Template | None = None
        self._lessons = 0 if stateless else _MAX_LESSONS
        self._alone = True  # the next read begins with the beginning of an event
        self.hidden = False  # what `recognise` finds is reasoning
        self.done = False  # the stream's own terminator was seen
        self.failed = False  # something in it was not JSON
        self.unread: str | None = None  # why the rest is not read: a reason of `skipped`

    def open(self, content_type: str, encoding: str) -> None:
        """The answer has this Content-Type and Content-Encoding."""
        self._content_type = content_type
        self._framing = framing_of(content_type)
        if not is_stream(content_type):
            self._lessons = _MAX_LESSONS
        try:
            self._decoder = decoder(encoding)
        except Undecodable:
            self.give_up("encoding")

    @property
    def readable(self) -> bool:
        """Whether an end could be seen at all."""
        return self._framing is not None

    @property
    def broken(self) -> bool:
        """Whether a damaged frame has ended the reading."""
        return isinstance(self._framing, EventStream) and self._framing.broken

    @property
    def unfinished(self) -> bool:
        """Whether the body is one JSON text, and what came of it ends inside; before `end`."""
        return isinstance(self._framing, Body) and self._framing.unfinished

    def give_up(self, reason: str) -> None:
        """Read no more, for a reason of `tokometer_skipped_total`."""
        self.unread = reason
        self._framing = self._template = self._decoder = None

    def recognise(self, data: bytes) -> int:
        """Characters of output in a read that is like those before; 0 if it must be read.

        Such a read is one whole event that holds text (`hidden`: reasoning) and nothing else.
        """
        template = self.expects
        return template.characters(data) if template is not None else 0

    @property
    def expects(self) -> Template | None:
        """What the next read is probably like; None where that cannot be told."""
        return self._template if self._alone else None

    def read(self, data: bytes) -> list[Event]:
        """The events that a read completes."""
        framing = self._framing
        if framing is None:
            return []
        began = self._alone
        try:
            payloads = framing.feed(data) if self._decoder is None else self._decoded(framing, data)
        except Undecodable:
            self.give_up("encoding")
            return []
        if len(payloads) > _MAX_PAYLOADS:
            self.give_up("too_large")
            return []
        events = self._events(payloads)
        self._alone = framing.between_events
        if framing.overflowed:
            self.give_up("too_large")
        elif began and self._alone and len(events) == 1 and self._lessons < _MAX_LESSONS:
            self._learn(data, events[0])
        return events

    def _decoded(self, framing: Framing, data: bytes) -> list[Payload]:
        """The payloads of compressed bytes, or more than enough of them. Raises: Undecodable."""
        assert self._decoder is not None
        plain = self._decoder.feed(data)
        payloads: list[Payload] = []
        for start in range(0, len(plain), _PIECE_BYTES):
            payloads += framing.feed(plain[start : start + _PIECE_BYTES])
            if framing.overflowed or len(payloads) > _MAX_PAYLOADS:
                break
        return payloads

    def end(self) -> list[Event]:
        """The body ended cleanly: the events that this completes."""
        return self._events(self._framing.end()) if self._framing is not None else []

    def _events(self, payloads: list[Payload]) -> list[Event]:
        events = []
        for data, name in payloads:
            if data == _DONE:
                self.done = True
                continue
            if is_heavy(data):
                self.give_up("too_large")
                break
            try:
                body = orjson.loads(data)
            except orjson.JSONDecodeError:
                body = self._leniently(data.strip())
            if type(body) is dict:
                event = self._event(body, name.decode("latin-1") if name else "")
                if event is not None:
                    events.append(event)
        return events

    def _leniently(self, data: bytes) -> JSON:
        """What is no JSON: the end, a word such as keep-alive, or nearly JSON (see `_lenient`)."""
        if data.startswith(_DONE):
            self.done = True
        elif data.startswith((b"{", b"[")):
            try:
                return _lenient(data)
            except (ValueError, RecursionError):
                self.failed = True
        return None

    def _learn(self, data: bytes, event: Event) -> None:
        """From a read that is one event: perhaps the next ones need not be parsed."""
        if self._decoder is not None or not (event.visible or event.hidden):
            return
        template = learn(data, self._as_a_whole)
        if template is None:
            self._lessons += _LESSONS_LOST
        else:
            self._lessons += 1
            self._template, self.hidden = template, template.hidden

    def _as_a_whole(self, data: bytes) -> list[Event]:
        """What a read of its own would tell."""
        framing = framing_of(self._content_type)
        before = self.done, self.failed
        events = self._events(framing.feed(data)) if framing is not None else []
        self.done, self.failed = before
        return events


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _lenient(data: bytes) -> JSON:
    """JSON of servers that write NaN, cut characters in two, or escape half of a pair.

    Raises: ValueError, RecursionError.
    """
    return json.loads(_SURROGATE.sub(rb"\\ufffd", data).decode("utf-8", "replace"))
