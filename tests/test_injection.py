"""Usage is asked for by the smallest edit, and exactly what that adds is taken out again."""

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import orjson
import pytest
from formats.recordings import recording
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wire import DONE, called, chunk, counts, finished, role, said, sse, thought, used

from proxy.framing import MAX_EVENT_BYTES
from proxy.injection import Withdrawal, ask_usage

# --- the request ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "asking"),
    [
        (b'{"stream":true}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
        (b' {"a" : 1 }\n', b' {"a" : 1 ,"stream_options":{"include_usage":true}}\n'),
        (b"{}", b'{"stream_options":{"include_usage":true}}'),
        (b"{ }", b'{ "stream_options":{"include_usage":true}}'),
        (b'{"a":{}}', b'{"a":{},"stream_options":{"include_usage":true}}'),
        (b'{"a":"{"}', b'{"a":"{","stream_options":{"include_usage":true}}'),
        (b'{"a":"}"}', b'{"a":"}","stream_options":{"include_usage":true}}'),
        (
            b'{"stream_options":null,"a":1}',
            b'{"stream_options":{"include_usage":true},"a":1}',
        ),
        (
            b'{"stream_options" : { } , "a":1}',
            b'{"stream_options" : { "include_usage":true} , "a":1}',
        ),
        (
            b'{"stream_options":{"include_usage":false,"x":[1e2]}}',
            b'{"stream_options":{"include_usage":true,"x":[1e2]}}',
        ),
        (
            b'{"stream_options":{"include_usage": null }}',
            b'{"stream_options":{"include_usage": true }}',
        ),
        (
            b'{"stream_options":{"continuous_usage_stats":true}}',
            b'{"stream_options":{"continuous_usage_stats":true,"include_usage":true}}',
        ),
        (
            b'{"stream_options":{"x":{"include_usage":false}}}',
            b'{"stream_options":{"x":{"include_usage":false},"include_usage":true}}',
        ),
        (
            b'{"messages":[{"content":"\\"stream_options\\": {"}]}',
            b'{"messages":[{"content":"\\"stream_options\\": {"}]'
            b',"stream_options":{"include_usage":true}}',
        ),
        (
            b'{"metadata":{"stream_options":{"include_usage":false}},"n":1 }',
            b'{"metadata":{"stream_options":{"include_usage":false}},"n":1 '
            b',"stream_options":{"include_usage":true}}',
        ),
        (
            b'{"stream_options":{"include_usage":true},"stream_options":{"include_usage":false}}',
            b'{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}',
        ),
        (
            b'{"stream\\u005foptions":{"a":1},"b":"stream_options"}',
            b'{"stream\\u005foptions":{"a":1,"include_usage":true},"b":"stream_options"}',
        ),
    ],
)
def test_only_what_lacks_is_changed(body: bytes, asking: bytes) -> None:
    assert ask_usage(body) == asking


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"stream_options"',
        b'["stream_options"]',
        b'{"stream_options":true}',
        b'{"stream_options":"x"}',
        b'{"stream_options":[{}]}',
        b'{"stream_options":1',
        b'{"stream_options"',
        b'{"stream_options":{"include_usage"',
        b'{"a":"stream_options\xff"}',
        b'{"stream_options":{},"a":' + b"[" * 100_000,
        b'{"stream_options":{},"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_cannot_be_edited_is_left_alone(body: bytes) -> None:
    assert ask_usage(body) is None


TEXT = st.text(max_size=8) | st.sampled_from(
    ["stream_options", '"stream_options":{}', "include_usage", "é\u2028\\", '"', "}{", "data"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | st.just(1e-7),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.none() | st.dictionaries(TEXT, VALUES, max_size=3)
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n ")])


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], int]:
    """A JSON object as somebody wrote it, what it means, and how much of it may be replaced."""
    request: dict[str, Any] = draw(st.dictionaries(TEXT, VALUES, max_size=4))
    request.pop("stream_options", None)
    if draw(st.booleans()):
        request["stream_options"] = draw(OPTIONS)
        request = dict(draw(st.permutations(list(request.items()))))
    plain, separators = draw(st.booleans()), draw(SPACES)

    def written(value: Any) -> str:
        return json.dumps(value, ensure_ascii=plain, separators=separators)

    options = request.get("stream_options")
    old = 0
    if "stream_options" in request:
        old = 4 if options is None else len(written(options.get("include_usage")).encode())
    around = draw(st.sampled_from(["", " ", "\n"]))
    return f"{around}{written(request)}{around}".encode(), request, old


def alike(one: bytes, other: bytes) -> int:
    """Bytes at the beginning that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


@given(requests())
@settings(max_examples=200, deadline=None)
def test_any_request_asks_for_usage_and_is_otherwise_the_same(
    asked: tuple[bytes, dict[str, Any], int],
) -> None:
    body, request, old = asked
    edited = ask_usage(body)
    assert edited is not None
    options = request.get("stream_options") or {}
    assert orjson.loads(edited) == request | {"stream_options": options | {"include_usage": True}}
    # One place is changed: all before it and all behind it is as it was.
    before = alike(body, edited)
    behind = alike(body[before:][::-1], edited[before:][::-1])
    assert len(body) - before - behind <= old
    assert len(edited) - before - behind <= len(',"stream_options":{"include_usage":true}')


# --- the answer -----------------------------------------------------------------------------------

KEPT = [
    role(),
    said("a"),
    said('é\u2028日本 "choices":[]'),
    thought("hm"),
    called("f", '{"choices":[],"usage":{}}'),
    finished(),
    DONE,
    b": comment\n\n",
    b"event: ping\n\n",
    sse({"choices": [], "usage": None}),
    sse({"choices": [], "prompt_filter_results": [{}]}),
    sse({"choices": [], "usage": [1]}),
    sse({"choices": {}, "usage": counts(1, 2)}),
    sse({"usage": counts(1, 2)}),
    sse({"x": {"choices": [], "usage": counts(1, 2)}}),
    finished(usage=counts(1, 2)),
    sse('{"choices":[],"usage":{"a":1}'),
    sse('[{"choices":[],"usage":{"a":1}}]'),
    sse({"error": {"message": '"choices":[]'}}),
]
# Such as the error of a stream that was cut short.
FAILED = [
    sse({"choices": [], "usage": counts(9, 2), "error": {"message": "out of memory"}}),
    sse({"choices": [], "usage": counts(9, 2), "message": "out of memory"}, "error"),
    sse({"choices": [], "usage": counts(9, 2), "x_groq": {"error": "out of memory"}}),
]
TAKEN = [
    used(9, 2),
    sse({"usage": counts(9, 2), "choices": []}, "message"),
    sse('{ "choices" : [ ] , "usage" : { } }'),
    sse({"choices": [], "usage": counts(9, 2), "timings": {"predicted_n": 2}, "x": None}),
    b'data: {"choices":\ndata: [\ndata: ],"usage":{}}\n\n',
    b'id: 7\ndata:{"choices":[],"usage":{}}\nretry: 10\n\n',
    b': hm\ndata: {"choices":[],"usage":{}}\n\n',
]
assert all(len(block.split(b"\n\n")) == 2 for block in KEPT + TAKEN)

STREAMS = st.lists(st.sampled_from(KEPT + FAILED) | st.sampled_from(TAKEN), max_size=10)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def through(reads: Sequence[bytes]) -> list[bytes]:
    """What the client gets after each read, and at the end."""
    withdrawal = Withdrawal()
    return [*(withdrawal.feed(data) for data in reads), withdrawal.end()]


def pieces(text: bytes, places: Sequence[int]) -> list[bytes]:
    edges = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(edges)] or [b""]


@given(STREAMS, ENDS, st.lists(st.integers(0, 3000), max_size=12))
@example([TAKEN[0], said("a")], b"\r\n", [len(TAKEN[0]) + 2])
@settings(max_examples=400, deadline=None)
def test_usage_events_go_and_all_others_stay_byte_for_byte(
    stream: list[bytes], end: bytes, places: list[int]
) -> None:
    blocks = [block.replace(b"\n", end) for block in stream]
    kept = [b"" if source in TAKEN else block for source, block in zip(stream, blocks, strict=True)]
    reads = pieces(b"".join(blocks), places)
    got = through(reads)
    assert b"".join(got) == b"".join(kept)
    # Nothing is held past the end of its event.
    ends = list(accumulate(map(len, blocks)))
    due = list(accumulate(map(len, kept)))
    for arrived, sent in zip(accumulate(map(len, reads)), accumulate(map(len, got)), strict=False):
        whole = sum(edge <= arrived for edge in ends)
        assert sent >= (due[whole - 1] if whole else 0)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_cut(end: bytes) -> None:
    blocks = [role(), said("ab"), finished(), used(12, 2), DONE]
    text = b"".join(blocks).replace(b"\n", end)
    wanted = b"".join(blocks[:3] + blocks[4:]).replace(b"\n", end)
    for at in range(len(text) + 1):
        assert b"".join(through([text[:at], text[at:]])) == wanted, at
    assert b"".join(through([text[n : n + 1] for n in range(len(text))])) == wanted


@given(st.lists(st.binary(max_size=9) | st.sampled_from([*KEPT, b"\n", b"\r", b"data:"])))
@settings(max_examples=200, deadline=None)
def test_bytes_without_a_usage_event_pass_as_they_are(reads: list[bytes]) -> None:
    assert b"".join(through(reads)) == b"".join(reads)


def test_whole_events_are_not_delayed() -> None:
    reads = [role(), said("a"), said("b") + said("c"), used(1, 3), DONE]
    assert through(reads) == [role(), said("a"), said("b") + said("c"), b"", DONE, b""]


def test_a_usage_event_goes_from_among_others_in_the_same_read() -> None:
    assert through([finished() + used(1, 3) + DONE]) == [finished() + DONE, b""]


def test_an_unfinished_event_is_held_until_it_is_whole() -> None:
    text = said("a")
    assert through([text[:20], text[20:40], text[40:]]) == [b"", b"", text, b""]


def test_a_usage_event_may_lack_its_blank_line() -> None:
    assert through([said("a"), used(1, 2).rstrip(b"\n")]) == [said("a"), b"", b""]
    assert through([said("a") + said("b")[:-1]]) == [said("a"), said("b")[:-1]]


def test_without_a_usage_event_nothing_is_taken_out() -> None:
    assert through([said("a"), finished(), DONE]) == [said("a"), finished(), DONE, b""]


def test_two_usage_events_both_go() -> None:
    stream = [finished(), used(7, 2), sse(chunk({}, "stop", 1)), used(7, 2), DONE]
    assert b"".join(through(stream)) == stream[0] + stream[2] + stream[4]


def test_the_second_half_of_a_line_end_goes_with_its_event() -> None:
    usage = used(1, 2).replace(b"\n", b"\r\n")
    text = said("a").replace(b"\n", b"\r\n")
    assert through([text, usage[:-1], usage[-1:], text]) == [text, b"", b"", text, b""]
    assert through([text, usage[:-1], usage[-1:] + text]) == [text, b"", text, b""]
    assert b"".join(through([text[:-1], text[-1:] + usage + text])) == text + text


def test_an_event_over_the_limit_passes_and_so_does_everything_behind_it() -> None:
    half = b"x" * (MAX_EVENT_BYTES // 2)
    reads = [said("a"), b"data: " + half, half, b"more", b"\n\n", used(1, 2), DONE]
    got = through(reads)
    assert got[:4] == [said("a"), b"", b"data: " + half + half, b"more"]
    assert b"".join(got) == b"".join(reads)


def test_a_flood_of_lines_passes_and_so_does_everything_behind_it() -> None:
    flood = b":\n\n" * 2000 + used(1, 2)
    got = through([said("a"), b"da", flood, used(1, 2)])
    assert got == [said("a"), b"", b"da" + flood, used(1, 2), b""]


@pytest.mark.parametrize(
    "name", ["chat-vllm-usage", "chat-llamacpp-usage", "completions-vllm-usage"]
)
def test_recorded_usage_events_are_taken_out(name: str) -> None:
    body = recording(f"{name}.txt").body
    events = body.split(b"\n\n")
    kept = [event for event in events if b'"choices":[]' not in event]
    assert len(kept) == len(events) - 1
    assert b"".join(through([body])) == b"\n\n".join(kept)


@pytest.mark.parametrize(
    "body",
    [b'{%b,"stream_options":{}}', b'{"stream_options":{%b}}', b'{"stream_options":{},%b}'],
)
def test_body_of_very_many_keys_is_left_alone(body: bytes) -> None:
    assert ask_usage(body % b",".join(b'"%d":1' % n for n in range(5000))) is None
    assert ask_usage(body % b'"n":1') is not None


def test_very_long_body_that_has_options_already_is_left_alone() -> None:
    """What is added at the end needs no reading, whatever the length."""
    long = b'{"messages":"' + b"x" * (5 << 20) + b'"%b}'
    assert ask_usage(long % b',"stream_options":{}') is None
    edited = ask_usage(long % b"")
    assert edited is not None and edited.endswith(b',"stream_options":{"include_usage":true}}')
    assert ask_usage(b'{"messages":"%b","stream_options":{}}' % (b"x" * (3 << 20)))
