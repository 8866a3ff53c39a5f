"""Framing: reads cut anywhere give the same payloads, in time linear in the bytes."""

import struct
import time
from collections.abc import Callable
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import framing
from proxy.framing import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    Blocks,
    Body,
    EventStream,
    Framing,
    JSONLines,
    Payload,
    ServerSentEvents,
    framing_of,
    is_stream,
    media_type,
    payload,
)

ENDS = (b"\n", b"\r\n", b"\r")


def read(source: Framing, *reads: bytes) -> list[Payload]:
    return [found for data in reads for found in source.feed(data)] + source.end()


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


# --- server-sent events ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("space", [b"", b" "])
def test_line_ends_and_the_space_after_the_colon_do_not_matter(end: bytes, space: bytes) -> None:
    body = b"data:" + space + b'{"a":1}' + end + end + b"data:" + space + b"[DONE]" + end + end
    expected = [Payload(b'{"a":1}'), Payload(b"[DONE]")]
    assert read(ServerSentEvents(), body) == expected
    assert read(ServerSentEvents(), *one_by_one(body)) == expected
    for cut in range(len(body)):
        assert read(ServerSentEvents(), body[:cut], body[cut:]) == expected


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_line_ends_may_be_mixed_in_one_blank_line(first: bytes, second: bytes) -> None:
    body = b"data: 1" + first + second + b"data: 2" + first + second
    # CR LF is one line end, so that CR and LF together end no event.
    expected = (
        [Payload(b"1\n2")] if (first, second) == (b"\r", b"\n") else [Payload(b"1"), Payload(b"2")]
    )
    for cut in range(len(body) + 1):
        assert read(ServerSentEvents(), body[:cut], body[cut:]) == expected
    assert read(ServerSentEvents(), *one_by_one(body)) == expected


def test_an_event_that_ends_with_cr_is_not_held_back_for_a_possible_lf() -> None:
    source = ServerSentEvents()
    assert source.feed(b"data: 1\r\n\r") == [Payload(b"1")]
    assert source.feed(b"\ndata: 2\r\n\r\n") == [Payload(b"2")]
    assert source.end() == []


def test_an_event_is_complete_with_its_blank_line_and_not_before() -> None:
    source = ServerSentEvents()
    assert source.feed(b"data: 1\n") == []
    assert source.feed(b"\n") == [Payload(b"1")]


def test_data_on_several_lines_is_joined_by_line_feeds() -> None:
    assert read(ServerSentEvents(), b'data: {"a":\ndata: 1}\n\n') == [Payload(b'{"a":\n1}')]


def test_the_event_field_names_the_payload_wherever_it_stands() -> None:
    for body in (b"event: ping\ndata: {}\n\n", b"data: {}\nevent: ping\nid: 7\n\n"):
        assert read(ServerSentEvents(), body) == [Payload(b"{}", b"ping")]


@pytest.mark.parametrize(
    "block",
    [
        b":\n\n",
        b": PROCESSING\n\n",
        b"event: ping\n\n",
        b"id: 3\nretry: 10\n\n",
        b"\n\n",
        b"data:\n\n",
        b"data: \n\n",
        b"data\n\n",
        b"datas: 1\n\n",
        b" data: 1\n\n",
    ],
)
def test_a_block_without_data_is_no_payload(block: bytes) -> None:
    assert payload(block) is None
    assert read(ServerSentEvents(), block, b"data: 1\n\n") == [Payload(b"1")]


def test_a_comment_beside_data_is_passed_over() -> None:
    assert read(ServerSentEvents(), b": c\ndata: 1\n: d\n\n") == [Payload(b"1")]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(ServerSentEvents(), b"\xef\xbb\xbfdata: 1\n\n") == [Payload(b"1")]


def test_unicode_line_separators_do_not_cut_a_line() -> None:
    text = 'data: {"t":"a\u2028b\u2029c\u0085d\x0be\x0cf"}'.encode()
    assert read(ServerSentEvents(), text + b"\n\n") == [Payload(text[6:])]


def test_spaces_beyond_the_first_and_colons_belong_to_the_data() -> None:
    assert read(ServerSentEvents(), b"data:  a: b \n\n") == [Payload(b" a: b ")]


def test_the_last_event_may_lack_its_blank_line() -> None:
    for tail in (b"", b"\n", b"\r\n", b"\r"):
        assert read(ServerSentEvents(), b"data: 1\n\ndata: 2" + tail) == [
            Payload(b"1"),
            Payload(b"2"),
        ]


def test_llamacpp_once_sent_errors_under_a_field_of_their_own() -> None:
    assert read(ServerSentEvents(), b'error: {"code":500}\n\n') == [
        Payload(b'{"code":500}', b"error")
    ]


def test_an_event_over_the_limit_ends_the_reading_and_frees_its_memory() -> None:
    source = ServerSentEvents()
    assert source.feed(b"data: 1\n\ndata: ") == [Payload(b"1")]
    block = b"x" * 65536
    for _ in range(MAX_EVENT_BYTES // len(block)):
        assert source.feed(block) == []
    assert source.overflowed
    assert source.feed(b"\n\ndata: 2\n\n") == []
    assert source.end() == []


def test_an_event_up_to_the_limit_is_read() -> None:
    data = b"x" * (MAX_EVENT_BYTES - 10)
    source = ServerSentEvents()
    assert read(source, b"data: " + data, b"\n\n") == [Payload(data)]
    assert not source.overflowed


def test_blocks_put_together_are_the_stream() -> None:
    body = b"data: 1\r\n\r\n: c\n\ndata: 2\r\rdata: 3\n\r\ndata: 4\n\n\ndata: 5"
    for cut in range(len(body)):
        blocks = Blocks()
        found = [*blocks.feed(body[:cut]), *blocks.feed(body[cut:])]
        assert blocks.pending == len(b"\ndata: 5")
        assert b"".join(found) + blocks.rest() == body
        assert blocks.pending == 0


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"data: 1", b"data:2", b"\n", b"\r", b"\r\n", b": c", b"x"])))
def test_blocks_lose_nothing_and_do_not_depend_on_the_cuts(parts: list[bytes]) -> None:
    body = b"".join(parts)
    whole, pieces = Blocks(), Blocks()
    at_once = [*whole.feed(body), whole.rest()]
    in_pieces = [block for part in parts for block in pieces.feed(part)]
    assert b"".join(at_once) == body
    assert b"".join([*in_pieces, pieces.rest()]) == body
    assert read(ServerSentEvents(), body) == read(ServerSentEvents(), *parts)


# --- JSON lines -----------------------------------------------------------------------------------


def test_json_lines_are_cut_at_line_feeds_only() -> None:
    body = '{"t":"a\u2028b"}\r\n\n  \n{"t":2}\n{"t":3}'.encode()
    expected = [Payload('{"t":"a\u2028b"}'.encode()), Payload(b'{"t":2}'), Payload(b'{"t":3}')]
    for cut in range(len(body)):
        assert read(JSONLines(), body[:cut], body[cut:]) == expected
    assert read(JSONLines(), *one_by_one(body)) == expected


def test_a_line_is_complete_with_its_line_feed() -> None:
    source = JSONLines()
    assert source.feed(b'{"a":1}') == []
    assert source.feed(b"\n") == [Payload(b'{"a":1}')]


def test_a_line_over_the_limit_ends_the_reading() -> None:
    source = JSONLines()
    source.feed(b"x" * (MAX_EVENT_BYTES + 1))
    assert source.overflowed
    assert source.feed(b"\n{}\n") == []
    assert source.end() == []


# --- one JSON text --------------------------------------------------------------------------------


def test_a_body_comes_at_its_end() -> None:
    source = Body()
    assert source.feed(b'\n\n {"a"') == []
    assert source.feed(b":1}\n") == []
    assert source.end() == [Payload(b'{"a":1}')]


def test_an_empty_body_is_no_payload() -> None:
    assert read(Body(), b"", b" \n") == []


def test_elements_of_an_array_come_as_they_complete() -> None:
    source = Body()
    assert source.feed(b'  [{"a":1},\n{"b":') == [Payload(b'{"a":1}')]
    assert source.feed(b'{"c":2}}') == [Payload(b'{"b":{"c":2}}')]
    assert source.feed(b"]") == []
    assert source.end() == []


def test_of_a_long_body_the_counts_at_its_ends_are_read() -> None:
    head = b'{"id":"x","model":"m-1","data":['
    tail = b'],"usage":{"prompt_tokens":8,"total_tokens":8}}'
    middle = b'{"object":"embedding","embedding":[0.25,0.5]},' * (MAX_BODY_BYTES // 40)
    for reads in ([head + middle + tail], [head, middle, tail], [*one_by_one(head), middle, tail]):
        source = Body()
        (found,) = read(source, *reads)
        assert b'"model":"m-1"' in found.data
        assert b'"usage":{"prompt_tokens":8,"total_tokens":8}' in found.data
        assert not source.overflowed


def test_a_long_body_in_small_reads_keeps_its_last_bytes() -> None:
    source = Body()
    source.feed(b'{"data":"')
    for _ in range(5 * MAX_BODY_BYTES // 1000):
        source.feed(b"x" * 1000)
    (found,) = read(source, b'","usage":{"prompt_tokens":', b"8}}")
    assert found.data == b'{"usage":{"prompt_tokens":8}}'


# --- event-stream frames --------------------------------------------------------------------------


def frame(payload: bytes, **headers: bytes) -> bytes:
    packed = b"".join(
        bytes([len(name) + 1]) + b":" + name.replace("_", "-").encode() + b"\x07"
        + struct.pack(">H", len(value)) + value
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", crc32(prelude)) + packed + payload
    return message + struct.pack(">I", crc32(message))


def test_frames_are_named_by_their_event_type() -> None:
    body = frame(b'{"a":1}', event_type=b"chunk", message_type=b"event") + frame(b"")
    expected = [Payload(b'{"a":1}', b"chunk"), Payload(b"{}")]
    for cut in range(len(body)):
        assert read(EventStream(), body[:cut], body[cut:]) == expected
    assert read(EventStream(), *one_by_one(body)) == expected


@pytest.mark.parametrize("kind", [b"exception", b"error"])
def test_an_exception_in_a_frame_is_named_error(kind: bytes) -> None:
    body = frame(b'{"message":"slow down"}', message_type=kind, exception_type=b"throttling")
    assert read(EventStream(), body) == [Payload(b'{"message":"slow down"}', b"error")]


def test_a_broken_frame_gives_one_payload_that_is_no_json() -> None:
    good, bad = frame(b'{"a":1}'), bytearray(frame(b'{"b":2}'))
    bad[-6] ^= 1
    source = EventStream()
    found = read(source, good + bytes(bad), good, good)
    assert found == [Payload(b'{"a":1}'), Payload(b"{broken frame")]


def test_a_frame_over_the_limit_ends_the_reading() -> None:
    body = frame(b'"' + b"x" * MAX_EVENT_BYTES + b'"')
    source = EventStream()
    assert source.feed(body[:-1]) == []
    assert source.overflowed
    assert source.feed(body[-1:]) == []


# --- all of them ----------------------------------------------------------------------------------

ALL: list[Callable[[], Framing]] = [ServerSentEvents, JSONLines, Body, EventStream]
FRAGMENTS = [b"[", b'{"a":', b'"x\\', b'"', b"{}", b"}", b",", b"]", b"data:", b"\n\n", b"\r"]
FRAGMENTS += [frame(b"{}", event_type=b"chunk"), frame(b"{}")[:13]]


@pytest.mark.parametrize("make", ALL)
@settings(deadline=None)
@given(parts=st.lists(st.binary(max_size=9) | st.sampled_from(FRAGMENTS), max_size=12))
def test_any_bytes_in_any_pieces_give_the_same_payloads(
    make: Callable[[], Framing], parts: list[bytes]
) -> None:
    assert read(make(), *parts) == read(make(), b"".join(parts))


@pytest.mark.parametrize(
    ("make", "unit"),
    [
        (ServerSentEvents, b"x"),
        (ServerSentEvents, b"\n\r"),
        (JSONLines, b"x"),
        (Body, b"x"),
        (Body, b'[{"a":'),
        (EventStream, frame(b"x" * 1000)[:-1]),
    ],
)
def test_one_byte_reads_take_time_linear_in_the_bytes(
    make: Callable[[], Framing], unit: bytes
) -> None:
    def seconds(size: int) -> float:
        reads = one_by_one((unit * size)[:size])

        def once() -> float:
            source = make()
            start = time.process_time()
            for data in reads:
                source.feed(data)
            return time.process_time() - start

        return min(once() for _ in range(3))

    # Four times the bytes take four times as long, not sixteen times.
    assert seconds(60_000) < 9 * seconds(15_000)


@pytest.mark.parametrize(
    ("content_type", "stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/x-ndjson", True),
        ("application/stream+json", True),
        ("application/vnd.amazon.eventstream", True),
        ("application/json; charset=utf-8", False),
        ("application/problem+json", False),
    ],
)
def test_the_content_type_says_how_to_read(content_type: str, stream: bool) -> None:
    assert is_stream(content_type) is stream
    assert framing_of(content_type) is not None


@pytest.mark.parametrize("content_type", ["", "text/html", "audio/mpeg", "application/jsonp"])
def test_what_cannot_be_read_has_no_framing(content_type: str) -> None:
    assert framing_of(content_type) is None
    assert not is_stream(content_type)


def test_each_answer_gets_a_framing_of_its_own() -> None:
    assert framing_of("text/event-stream") is not framing_of("text/event-stream")


def test_media_type_leaves_parameters_out() -> None:
    assert media_type(" Text/HTML ;charset=x") == "text/html"


def test_a_long_stream_of_short_events_never_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT_BYTES", 100)
    for make, unit in ((ServerSentEvents, b"data: 12345\n\n"), (JSONLines, b"12345\n")):
        source: Framing = make()
        assert len(read(source, *[unit[:5], unit[5:]] * 50)) == 50
        assert not source.overflowed


@pytest.mark.parametrize(
    ("body", "unfinished"),
    [
        (b'{"a": "} \\" ]"}', False),
        (b'{"a": "} \\" ]"', True),
        (b'{"a": "}', True),
        (b'{"a": "}\\', True),
        (b"[{}, [1]]", False),
        (b"[{}, [1]", True),
        (b"", False),
        (b"text {", False),
        (b"{" * 100_000 + b"}" * 100_000, False),
        (b"{" * 100_000 + b"}" * 99_999, True),
        (b'{"a":"' + b"x" * MAX_BODY_BYTES + b'"} \n', False),
        (b'{"a":"' + b"x" * MAX_BODY_BYTES, True),
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 100_000, 1 << 30])
def test_of_a_body_is_known_whether_it_ends_inside(body: bytes, unfinished: bool, cut: int) -> None:
    if len(body) // cut > 50_000:
        cut *= 999
    framing = Body()
    for start in range(0, len(body), cut):
        framing.feed(body[start : start + cut])
    assert framing.unfinished is unfinished
