"""What the core costs: a plain loop over the recorded answers, nanoseconds per event.

`parse` is orjson alone, for scale. `meter` is everything from a read to the measurement, with one
event a read; `again` is one more read of the kind that is in the middle of the stream.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from proxy.formats import interface
from proxy.formats.event import Interface
from proxy.framing import Payload, framing_of, is_stream
from proxy.meter import Meter
from proxy.tokens import Learned

_RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
_REPEATS = 15
_LOOP_SECONDS = 0.01
_STALL_SECONDS = 2.0
_GAP_SECONDS = 0.025
# Which interface a recording is of, by how its name begins; the first that fits.
_PATHS = {
    "audio-speech": "/v1/audio/speech",
    "audio-": "/v1/audio/transcriptions",
    "bedrock-converse": "/model/m/converse-stream",
    "bedrock-invoke": "/model/m/invoke-with-response-stream",
    "chat-": "/v1/chat/completions",
    "cohere-v1": "/v1/chat",
    "cohere-v2": "/v2/chat",
    "completions-": "/v1/completions",
    "gemini-": "/v1beta/models/m:streamGenerateContent",
    "llamacpp-": "/completion",
    "lmstudio-": "/api/v1/chat",
    "messages-": "/v1/messages",
    "ollama-chat": "/api/chat",
    "ollama-generate": "/api/generate",
    "responses-": "/v1/responses",
    "sglang-": "/generate",
    "tgi-": "/generate_stream",
}


class Recording(NamedTuple):
    """An answer that is a stream: its body cut so that each piece completes one event."""

    name: str
    content_type: str
    path: str
    face: Interface
    pieces: list[bytes]
    payloads: list[Payload]


def main(arguments: Sequence[str]) -> int:
    """Measure the recordings whose names contain one of `arguments`, or all; an exit code."""
    found = [r for path in sorted(_RECORDINGS.iterdir()) if (r := _recording(path)) is not None]
    if arguments:
        found = [r for r in found if any(word in r.name for word in arguments)]
    names = ("events", "framing", "parse", "format", "meter", "again")
    print(f"{'nanoseconds per event':44}" + "".join(f"{name:>9}" for name in names))
    for recording in found:
        figures = (len(recording.payloads), *_figures(recording))
        print(f"{recording.name:44}" + "".join(f"{figure:9.0f}" for figure in figures))
    return 0


def _recording(path: Path) -> Recording | None:
    """None for what is no stream of an interface of ours."""
    target = next((t for start, t in _PATHS.items() if path.name.startswith(start)), None)
    head, _, body = path.read_bytes().partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in head.decode("latin-1").split("\r\n"))
    kind = {name.lower(): value.strip() for name, _, value in lines}.get("content-type", "")
    if target is None or not is_stream(kind):
        return None
    pieces, payloads = _cut(kind, body)
    return (
        Recording(path.stem, kind, target, interface(target), pieces, payloads)
        if payloads
        else None
    )


def _cut(content_type: str, body: bytes) -> tuple[list[bytes], list[Payload]]:
    framing = framing_of(content_type)
    pieces: list[bytes] = []
    payloads: list[Payload] = []
    start = 0
    for at in range(1, len(body) + 1):
        if framing is not None and (found := framing.feed(body[at - 1 : at])):
            pieces.append(body[start:at])
            payloads += found
            start = at
    return pieces, payloads


def _figures(recording: Recording) -> tuple[float, ...]:
    """Nanoseconds per event of framing, parsing, format, meter, and one more read."""
    data = [p.data for p in recording.payloads if not p.data.startswith(b"[DONE]")]
    parsed = [(b, "") for d in data if isinstance(b := orjson.loads(d), dict)]
    names = [p.name.decode("latin-1") for p in recording.payloads]
    bodies = [(b, name) for (b, _), name in zip(parsed, names, strict=False)]
    call = recording.face.call({"stream": True}, recording.path)
    event = call.reader or recording.face.event

    def frame() -> None:
        framing = framing_of(recording.content_type)
        for piece in recording.pieces:
            framing.feed(piece)  # type: ignore[union-attr]

    def parse() -> None:
        for one in data:
            orjson.loads(one)

    def read() -> None:
        for body, name in bodies:
            event(body, name)

    loops = (frame, parse, read, lambda: _metered(recording))
    counts = (len(recording.pieces), len(data), len(bodies), len(recording.pieces))
    return (*(_timed(f) / n for f, n in zip(loops, counts, strict=True)), _again(recording))


def _metered(recording: Recording, end: int | None = None) -> Meter:
    """A meter that has read the recording, or its first `end` pieces."""
    call: Any = recording.face.call({"stream": True}, recording.path)
    meter = Meter(call, call.reader or recording.face.event, Learned(), 0.0, _STALL_SECONDS)
    meter.head(200, recording.content_type, "", 0.0)
    at = 0.0
    for piece in recording.pieces[:end]:
        at += _GAP_SECONDS
        _read(meter, piece, at)
    if end is None:
        meter.end(at)
        meter.decode_rate(meter.totals().output)
    return meter


def _read(meter: Meter, piece: bytes, at: float) -> None:
    """As the relay does."""
    if characters := meter.recognise(piece):
        meter.recognised(characters, at)
    else:
        meter.read(piece, at)


def _again(recording: Recording) -> float:
    middle = len(recording.pieces) // 2
    piece = recording.pieces[middle]
    meter = _metered(recording, middle + 1)
    at = meter.gaps.last_at

    def read() -> None:
        nonlocal at
        for _ in range(100):
            at += _GAP_SECONDS
            _read(meter, piece, at)
        meter.progress()

    return _timed(read) / 100


def _timed(work: Callable[[], object]) -> float:
    """The least time that one call takes, nanoseconds."""
    calls, least = 1, float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        took = time.perf_counter() - began
        least = min(least, took / calls)
        calls = max(1, int(_LOOP_SECONDS / least))
    return least * 1e9
