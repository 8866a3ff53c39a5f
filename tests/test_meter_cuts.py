"""However the bytes are cut into reads, the measurement is the same."""

import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import brotli
import pytest
import zstandard
from formats.recordings import recording
from formats.test_table import RECORDINGS, path_of
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import ASK, EVENTS, JSON, LINES, Played, Script, play
from wire import DONE, called, chunk, completion, counts, finished, role, said, sse, thought, used

CHAT = "/v1/chat/completions"
STREAM = role() + thought("hm") + said("Hé") + said("日本") + called("f", "{}") + finished()
STREAM += used(9, 12) + DONE


def measured(reads: Sequence[bytes], path: str = CHAT, asked: Any = ASK, **more: Any) -> Any:
    """All that a meter tells of reads that arrive at the same time, but how many there were."""
    return told(play([(100, data) for data in reads], path, asked, **more))


def told(played: Played) -> Any:
    """All that a meter tells but the number of reads."""
    meter = played.meter
    return (
        (played.totals, played.rate, played.skipped, played.ttft, played.ttfv, played.gaps),
        (
            meter.output.characters,
            meter.output.hidden,
            meter.output.events,
            meter.ended,
            meter.error,
            meter.readable,
        ),
        (
            meter.model,
            meter.finish,
            meter.engine,
            meter.stream,
            meter.gaps.longest,
            meter.gaps.stalls,
        ),
        (meter.tokens_so_far(), meter.first_event_tokens(10)),
    )


def once(data: bytes, at: int) -> list[bytes]:
    return [data[:at], data[at:]]


def singly(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings(name: str) -> None:
    found, path = recording(name), path_of(name)
    more = {"kind": found.content_type, "status": found.status}
    whole = measured([found.body], path, {}, **more)
    for at in range(1, len(found.body), 1 + len(found.body) // 80):
        assert measured(once(found.body, at), path, {}, **more) == whole, at
    assert measured(singly(found.body), path, {}, **more) == whole


@given(st.sampled_from(RECORDINGS), st.lists(st.integers(0, 1 << 20), max_size=20))
@settings(max_examples=100, deadline=None)
def test_recordings_in_many_pieces(name: str, places: list[int]) -> None:
    found, path = recording(name), path_of(name)
    more = {"kind": found.content_type, "status": found.status}
    pieces = cut(found.body, places)
    assert measured(pieces, path, {}, **more) == measured([found.body], path, {}, **more)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_cut_of_every_kind_of_line_end(end: str) -> None:
    text = STREAM.replace(b"\n", end.encode())
    whole = measured([text])
    assert whole[0][0].output == 12
    for at in range(len(text)):
        assert measured(once(text, at)) == whole, at
    assert measured(singly(text)) == whole


def test_the_read_that_completes_an_event_is_its_arrival() -> None:
    text = said("Hé") + said("日本") + finished() + used(9, 2) + DONE
    size = 5
    script = [(100.0 + 6 * n, text[n * size :][:size]) for n in range(-(-len(text) // size))]
    first = 100 + 6 * ((len(said("Hé")) - 1) // size)
    last = 100 + 6 * ((len(said("Hé") + said("日本")) - 1) // size)
    played = play(script)
    assert (played.ttft, played.gaps) == (first, [last - first])
    assert played.rate == pytest.approx(1000 / (last - first))


def gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def deflate(data: bytes) -> bytes:
    return zlib.compress(data)


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def two_members(data: bytes) -> bytes:
    return gzip(data[:200]) + gzip(data[200:])


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip),
        ("x-gzip", gzip),
        ("GZIP", two_members),
        ("deflate", deflate),
        ("deflate", bare_deflate),
        ("br", brotli.compress),
        ("zstd", zstd),
        ("identity", bytes),
        ("gzip, br", lambda data: brotli.compress(gzip(data))),
    ],
)
def test_every_cut_of_every_content_encoding(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(STREAM)
    whole = measured([STREAM])
    for at in range(len(packed)):
        assert measured(once(packed, at), encoding=encoding) == whole, at
    assert measured(singly(packed), encoding=encoding) == whole


def test_an_encoded_event_arrives_with_the_read_that_flushes_it() -> None:
    packer = zlib.compressobj(wbits=31)
    texts = [
        (50, role()),
        (200, said("ab")),
        (300, said("cd")),
        (301, finished()),
        (302, used(9, 2)),
    ]
    script = [(at, packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)) for at, data in texts]
    played = play([*script, (303, packer.flush())], encoding="gzip")
    assert (played.ttft, played.gaps, played.totals.output) == (200, [100], 2)


def one_by_one(name: str) -> Script:
    """The events of a recorded stream, a read each, in irregular time with a stall."""
    events = recording(name).body.replace(b"\r\n", b"\n").split(b"\n\n")
    return [(30.0 * n + n * n % 7 + 3000 * (n > 9), b"%b\n\n" % e) for n, e in enumerate(events)]


@pytest.mark.parametrize(
    "name", [n for n in RECORDINGS if recording(n).content_type[:5] == "text/"]
)
def test_a_read_that_is_recognised_tells_what_it_would_if_it_were_parsed(name: str) -> None:
    script = one_by_one(name)
    played = [told(play(script, path_of(name), {}, shortcut=short)) for short in (True, False)]
    assert played[0] == played[1]


def test_reads_that_are_recognised_at_the_same_time_are_one() -> None:
    texts = [said(text) for text in "abcd"]
    assert measured(texts) == measured([b"".join(texts)])


def test_reads_like_those_before_are_not_parsed() -> None:
    texts = [(100.0 * n, said(text)) for n, text in enumerate("abcdefghij")]
    waits: list[tuple[float, float]] = [(450.0, 20.0), (650.0, 30.0)]
    ends = [(5000.0, said("k")), (5001.0, finished()), (5002.0, used(7, 11))]
    script: Script = sorted([*texts, *waits, *ends], key=lambda part: part[0])
    quick, slow = (play(script, shortcut=short) for short in (True, False))
    assert quick.meter.recognise(said("x")) == 1
    assert told(quick) == told(slow)
    assert (quick.meter.gaps.stalls, quick.meter.chunks) == (1, 13)
    assert quick.gaps[4:7] == [80, 100, 70]


# --- bytes that nobody wrote ----------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        role(),
        said("a"),
        said("é\u2028日本"),
        thought("x"),
        called("f", '{"a":'),
        finished(),
        used(7, 3),
        DONE,
        said("b", usage=counts(7, 2)),
        said("c", timings={"predicted_n": 4}),
        completion("d"),
        sse(chunk({"content": "e"}, index=1)),
        sse(chunk({"content": "f"}), end="\r\n", gap=""),
        sse({"error": {"message": "x"}}),
        sse({"text": "abc", "meta_info": {"completion_tokens": 2}}),
        sse({"message": {"content": "g"}, "done": True, "eval_count": 3}),
        sse({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "h"}}, "x"),
        sse("{oops"),
        b": comment\n\n",
        b"data: a\rdata: b\r\n",
        b"\n",
        b"\r",
        b"\r\n",
        b"data:",
        b"\xff\x00",
        b'{"response":"i"}\n',
        b"[",
    ]
)
BYTES = st.lists(PIECES | st.binary(max_size=6), max_size=12).map(b"".join)
PATHS = [CHAT, "/v1/completions", "/v1/messages", "/v1/responses", "/api/chat", "/generate", "/"]
PATHS += [
    "/v1beta/models/m:streamGenerateContent",
    "/v2/chat",
    "/model/m/converse-stream",
    "/other",
]
KINDS = [EVENTS, LINES, JSON, "application/vnd.amazon.eventstream", "application/jsonl"]


@given(
    BYTES,
    st.lists(st.integers(0, 500), max_size=12),
    st.sampled_from(PATHS),
    st.sampled_from(KINDS),
    st.sampled_from([{}, ASK, ASK | {"n": 2}, ASK | {"diffusing": True}]),
)
@settings(max_examples=250, deadline=None)
def test_any_bytes_in_any_pieces(
    data: bytes, places: list[int], path: str, kind: str, asked: Any
) -> None:
    pieces = cut(data, places)
    whole = measured([data], path, asked, kind=kind)
    assert measured(pieces, path, asked, kind=kind) == whole
    assert measured(pieces, path, asked, kind=kind, shortcut=False) == whole


@given(st.lists(PIECES | st.just(said("ab")), max_size=20), st.lists(st.floats(1, 3000)))
@settings(max_examples=150, deadline=None)
def test_any_events_recognised_or_parsed(events: list[bytes], steps: list[float]) -> None:
    times = list(accumulate([*steps, *[10.0] * len(events)]))
    script = list(zip(times, events, strict=False))
    assert told(play(script)) == told(play(script, shortcut=False))


@given(st.binary(max_size=60), st.sampled_from(["gzip", "br", "zstd", "deflate", "gzip, br"]))
@settings(max_examples=200, deadline=None)
def test_any_encoded_bytes(data: bytes, encoding: str) -> None:
    measured(singly(data), encoding=encoding)


@given(BYTES, st.lists(st.tuples(st.integers(0, 500), st.floats(0, 5000)), max_size=8))
@settings(max_examples=200, deadline=None)
def test_at_any_times_nothing_impossible_is_told(
    data: bytes, places: list[tuple[int, float]]
) -> None:
    pieces = cut(data, [place for place, _ in places])
    times = sorted(at for _, at in places)
    script = [(times[min(n, len(times) - 1)] if times else 0.0, p) for n, p in enumerate(pieces)]
    played = play(script)
    assert (played.rate is None) != (played.skipped is None)
    assert played.rate is None or played.rate > 0
    assert all(gap >= 0 for gap in played.gaps)
    assert played.ttft is None or played.ttft >= 0
    assert (played.ttfv or 0) >= (played.ttft or 0) or played.ttfv is None
    assert sum(played.meter.gaps.new) <= 5.0 + 1e-6
    assert played.meter.output.events >= (played.meter.output.first_at is not None)
    assert played.totals.output is None or played.totals.output >= 0
