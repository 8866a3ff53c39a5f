"""A read is recognised only if parsing it would tell the same."""

from itertools import pairwise

import orjson
import pytest
from formats.recordings import recording
from formats.test_table import RECORDINGS, path_of
from hypothesis import given
from hypothesis import strategies as st

from proxy.formats import interface
from proxy.formats.event import Event
from proxy.framing import framing_of
from proxy.meter import Meter
from proxy.template import Template, learn
from proxy.tokens import Learned

CHAT = interface("/v1/chat/completions")


def events(data: bytes) -> list[Event]:
    framing = framing_of("text/event-stream")
    assert framing is not None
    found = [CHAT.event(orjson.loads(p.data), "") for p in framing.feed(data)]
    return [event for event in found if event is not None]


def read(text: str, **more: object) -> bytes:
    delta = {"content": text}
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta} | more]}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def learned(data: bytes) -> Template:
    template = learn(data, events)
    assert template is not None
    return template


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_in_the_hole_counts_its_characters(text: str) -> None:
    assert learned(read("first")).characters(read(text)) == len(text)


@pytest.mark.parametrize(
    "other",
    [
        read("ab", finish_reason="stop"),
        read("ab")[:-1],
        read("ab") + read("cd"),
        read("ab").replace(b'"m"', b'"n"'),
        read("ab").replace(b'"ab"', b'"ab","tool_calls":[{"function":{"name":"x"}}],"z":"y"'),
        read("ab").replace(b'"ab"', b'"a\nb"'),
        read("ab").replace(b'"ab"', b'"a\xffb"'),
        read("ab").replace(b'"ab"', b'"a\\"'),
        read("ab").replace(b'"ab"', b"null"),
        read("ab").replace(b'"ab"', b'"'),
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_anything_else_does_not_fit(other: bytes) -> None:
    assert learned(read("first")).characters(other) == 0


@pytest.mark.parametrize(
    "data",
    [
        read("ab", logprobs={"content": [{"token": "ab"}]}),
        read("ab", finish_reason="stop"),
        read("ab", token_ids=[1]),
        read("ab") + read("cd"),
        b'data: {"choices":[],"usage":{"completion_tokens":3,"prompt_tokens":2}}\n\n',
        b": ping\n\n",
        b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
        b'data: {"content":"ab"',
    ],
)
def test_what_tells_more_than_a_text_is_never_a_template(data: bytes) -> None:
    assert learn(data, events) is None


@pytest.mark.parametrize("texts", [2, 50, 2000])
def test_an_event_of_many_texts_is_parsed_a_few_times_at_most(texts: int) -> None:
    asked: list[bytes] = []

    def asking(data: bytes) -> list[Event]:
        asked.append(data)
        return events(data)

    choices = [{"index": n, "delta": {"content": "a"}} for n in range(texts)]
    assert learn(b"data: " + orjson.dumps({"choices": choices}) + b"\n\n", asking) is None
    assert len(asked) <= 8


def test_reasoning_is_told_from_visible_output() -> None:
    data = read("x").replace(b'"content"', b'"reasoning_content"')
    assert learned(data).hidden
    assert not learned(read("x")).hidden


def measured(name: str, reads: list[bytes], recognising: bool) -> tuple[list[object], int]:
    """What a meter says of reads, one a tenth of a second, and how many it recognised."""
    found, path = recording(name), path_of(name)
    face = interface(path)
    call = face.call({"stream": True}, path)
    meter = Meter(call, call.reader or face.event, Learned(), 0.0, 0.25)
    meter.head(200, found.content_type, "", 0.0)
    known = 0
    for number, data in enumerate(reads, 1):
        if characters := meter.recognise(data) if recognising else 0:
            known += 1
            meter.recognised(characters, number / 10)
        else:
            meter.read(data, number / 10)
    meter.end(len(reads) / 10)
    told: list[object] = [
        meter.totals(),
        meter.ttft,
        meter.ttfv,
        meter.gaps.last_at,
        meter.gaps.new,
    ]
    told += [
        meter.gaps.longest,
        meter.output.events,
        meter.output.characters,
        meter.output.hidden,
        meter.chunks,
    ]
    told += [meter.gaps.stalls, meter.ended]
    return (told, known)


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_measure_the_same_recognised_or_parsed(name: str) -> None:
    body = recording(name).body
    reads = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]] or [body]
    assert measured(name, reads, True)[0] == measured(name, reads, False)[0]


@given(st.data())
def test_reads_cut_anywhere_measure_the_same(data: st.DataObject) -> None:
    body = recording("chat-vllm-usage.txt").body
    edges = data.draw(st.lists(st.integers(0, len(body)), max_size=12).map(sorted))
    reads = [body[a:b] for a, b in pairwise([0, *edges, len(body)])]
    told = measured("chat-vllm-usage.txt", reads, True)[0]
    assert told == measured("chat-vllm-usage.txt", reads, False)[0]


def test_most_reads_of_a_real_stream_are_recognised() -> None:
    body = recording("chat-vllm-usage.txt").body
    reads = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    assert measured("chat-vllm-usage.txt", reads, True)[1] >= len(reads) - 5


def test_escaped_text_keeps_the_template() -> None:
    template = learned(read("first"))
    assert template.characters(read('a\n"b" \\ \u2028')) == 9
