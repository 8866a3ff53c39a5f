"""Plays a script of reads to a meter, at exact times that nobody waits for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from proxy.formats import interface
from proxy.meter import Meter
from proxy.tokens import Learned, Totals

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
JSON = "application/json"

T0 = 5000.0  # seconds; any will do
ASK: dict[str, Any] = {"stream": True, "messages": [{"role": "user", "content": "hello"}]}

# Bytes that arrive so many milliseconds after the request; a number instead of bytes is
# milliseconds for which the client has held things up until then.
Script = Sequence[tuple[float, bytes | float]]


class Played(NamedTuple):
    """A meter and what it says in the end; times in milliseconds after the request."""

    meter: Meter
    totals: Totals
    rate: float | None
    skipped: str | None

    @property
    def ttft(self) -> float | None:
        return _milliseconds(self.meter.ttft)

    @property
    def ttfv(self) -> float | None:
        return _milliseconds(self.meter.ttfv)

    @property
    def gaps(self) -> list[float]:
        return [round(gap * 1000, 6) for gap in self.meter.gaps.new]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 6)


def play(
    script: Script,
    path: str = "/v1/chat/completions",
    asked: dict[str, Any] = ASK,
    *,
    kind: str = EVENTS,
    encoding: str = "",
    status: int = 200,
    learned: Learned | None = None,
    stall: float = 2000.0,
    ends: bool = True,
    shortcut: bool = True,
) -> Played:
    """The answer `script` to a request.

    Args:
        stall: threshold, milliseconds.
        ends: the body ends cleanly with its last byte.
        shortcut: reads that the meter recognises are not parsed.
    """
    face = interface(path)
    call = face.call(asked, path)
    meter = Meter(call, call.reader or face.event, learned or Learned(), T0, stall / 1000)
    meter.head(status, kind, encoding, T0)
    at = T0
    for milliseconds, data in script:
        at = T0 + milliseconds / 1000
        if not isinstance(data, bytes):
            meter.waited(data / 1000)
        elif shortcut and (characters := meter.recognise(data)):
            meter.recognised(characters, at)
        else:
            meter.read(data, at)
    if ends:
        meter.end(at)
    totals = meter.totals()
    return Played(meter, totals, *meter.decode_rate(totals.output))
