"""Answers made to stop the proxy: they are read no further, and others go on.

Work is bounded by what is counted here, not by the clock: how much is parsed out of one read.
"""

import struct
import zlib
from collections.abc import Callable

import brotli
import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import EVENTS, JSON, LINES, Script, play
from wire import DONE, finished, said, used

from proxy import reader
from proxy.framing import MAX_EVENT_BYTES

READ = 64 << 10
CHAT = "/v1/chat/completions"
AWS = "application/vnd.amazon.eventstream"
GEMINI = "/v1beta/models/m:streamGenerateContent"
ANSWER = said("Hello") + said(" there") + finished() + used(9, 12) + DONE


def gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


def reads(data: bytes, size: int = READ) -> Script:
    return [(100 + at, data[at : at + size]) for at in range(0, len(data), size)]


def frame(payload: bytes) -> bytes:
    start = struct.pack(">II", 16 + len(payload), 0)
    start += struct.pack(">I", zlib.crc32(start)) + payload
    return start + struct.pack(">I", zlib.crc32(start))


class Loads:
    """What is parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.bytes = 0
        monkeypatch.setattr("proxy.reader.orjson.loads", self)

    def __call__(self, data: bytes) -> object:
        self.count += 1
        self.bytes += len(data)
        return _loads(data)


_loads = orjson.loads

HOSTILE: dict[str, tuple[bytes, str, str]] = {
    "events": (b"data:{}\n\n" * 100_000, EVENTS, CHAT),
    "lines": (b"{}\n" * 300_000, LINES, "/api/chat"),
    "blank": (b"\n\n" * 400_000, EVENTS, CHAT),
    "blank, by CR": (b"\r\r" * 400_000, EVENTS, CHAT),
    "comments": (b":\n\n" * 300_000, EVENTS, CHAT),
    "ids": (b"id\n\n" * 200_000, EVENTS, CHAT),
    "lines of one event": (b"x\n" * 500_000, EVENTS, CHAT),
    "lines of data": (b"data:1\n" * 150_000, EVENTS, CHAT),
    "blank lines": (b"\n" * 900_000, LINES, "/api/chat"),
    "elements": (b"[" + b"{}," * 300_000, JSON, GEMINI),
    "brackets": (b"[" * 900_000, JSON, GEMINI),
    "texts": (b"[" + b'"",' * 300_000, JSON, GEMINI),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_read_of_too_many_things_is_the_last_that_is_looked_at(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind, path = HOSTILE[what]
    loads = Loads(monkeypatch)
    played = play(reads(data, 256 << 10), path, kind=kind)
    assert played.skipped == "too_large"
    assert loads.count <= reader._MAX_PAYLOADS


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("what", HOSTILE)
def test_bomb_of_things_is_not_parsed(
    what: str, coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind, path = HOSTILE[what]
    loads = Loads(monkeypatch)
    played = play([(100, PACKERS[coding](data * 6))], path, kind=kind, encoding=coding)
    assert played.skipped == "too_large"
    assert loads.count <= reader._MAX_PAYLOADS


@pytest.mark.parametrize(
    "inside",
    [
        b'{"a":[' + b"1," * 300_000 + b"1]}",
        b'{"choices":[' + b"{}," * 200_000 + b"{}]}",
        b"[" * 400_000 + b"]" * 400_000,
        b'{"a":' * 150_000 + b"1" + b"}" * 150_000,
        b'{"a":[' + b"NaN," * 150_000 + b"1]}",
    ],
)
def test_event_that_would_take_long_to_parse_is_not_parsed(
    inside: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = Loads(monkeypatch)
    played = play(reads(b"data:" + inside + b"\n\n"))
    assert played.skipped == "too_large"
    assert loads.bytes == 0


@pytest.mark.parametrize("depth", [100, 900, 2000, 20_000])
def test_deep_json_is_no_answer_and_no_crash(depth: int) -> None:
    for data in (b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        played = play([(100, b"data:" + data + b"\n\n" + ANSWER)])
        assert played.totals.output == 12
        body = play([(100, data)], kind=JSON)
        assert body.totals.output is None


def test_a_stream_that_is_kept_alive_is_read() -> None:
    for beat in (b":\n\n", b": ping\n\n", b"event: ping\ndata: {}\n\n", b"\n", b"\r\n"):
        script = [*reads(beat * 3000, 1000), (90_000, ANSWER)]
        assert play(script).totals.output == 12
        assert play([(100, beat * 300 + ANSWER)]).totals.output == 12


def test_large_event_that_is_one_text_is_read() -> None:
    picture = b'{"choices":[{"delta":{"content":"Hi"}}],"image":"%b"}' % (b"A" * 900_000)
    assert play([*reads(b"data:" + picture + b"\n\n"), (90_0000, ANSWER)]).totals.output == 12


def test_event_without_an_end_is_let_go() -> None:
    played = play(reads(b"data:" + b"x" * (MAX_EVENT_BYTES + READ)))
    assert played.skipped == "too_large"


def test_large_numbers_are_no_counts() -> None:
    for number in (b"9" * 400, b"9" * 4000, b"1e999", b"-1", b"1e30", b"0.5"):
        usage = b'data:{"choices":[],"usage":{"completion_tokens":%b}}\n\n' % number
        assert (play([(100, said("Hello") + usage + DONE)]).totals.output or 1) < 1e9


def test_frames_without_a_payload_are_read_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = Loads(monkeypatch)
    play(reads(frame(b"") * 60_000, 256 << 10), "/model/m/converse-stream", kind=AWS)
    assert loads.count <= reader._MAX_PAYLOADS


BITS = st.sampled_from(
    [b"data:", b"\n", b"\r", b'{"choices":', b"[", b"{", b"}", b"]", b'"', b"\\", b",", b":", b"1"]
) | st.binary(max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([EVENTS, LINES, JSON, AWS]),
    st.sampled_from(["", "gzip", "br", "zstd", "deflate"]),
    st.sampled_from([CHAT, GEMINI, "/api/chat", "/v1/messages", "/v1/responses", "/generate"]),
    st.lists(st.lists(BITS, max_size=30).map(b"".join), max_size=8),
)
def test_nothing_that_an_upstream_says_raises(
    kind: str, coding: str, path: str, said: list[bytes]
) -> None:
    play([(100 + at, data) for at, data in enumerate(said)], path, kind=kind, encoding=coding)
