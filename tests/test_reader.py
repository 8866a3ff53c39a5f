"""The body of an answer to events, whatever stands between."""

import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import DONE, body, chunk, counts, finished, line, role, said, sse, thought, used

from proxy.formats import interface
from proxy.formats.event import JSON, Event
from proxy.framing import MAX_EVENT_BYTES
from proxy.reader import Reader

CHAT = interface("/v1/chat/completions").event


def reader(
    content_type: str = "text/event-stream", encoding: str = "", stateless: bool = True
) -> Reader:
    made = Reader(CHAT, stateless)
    made.open(content_type, encoding)
    return made


def visible(events: list[Event]) -> list[int]:
    return [event.visible for event in events]


def test_a_read_gives_the_events_that_it_completes() -> None:
    read, text = reader(), said("ab") + said("c")
    assert visible(read.read(text[:-1])) == [2]
    assert visible(read.read(text[-1:] + role())) == [1, 0]
    assert read.end() == []


def test_the_end_gives_what_it_completes() -> None:
    read = reader()
    assert read.read(said("abc").rstrip(b"\n")) == []
    assert visible(read.end()) == [3]


def test_lines_and_whole_bodies_are_read() -> None:
    payload = chunk({"content": "abc"})
    assert visible(reader("application/x-ndjson").read(line(payload) * 2)) == [3, 3]
    whole = reader("application/json")
    assert (whole.read(body(payload)), visible(whole.end())) == ([], [3])


def test_the_type_of_an_event_is_handed_on() -> None:
    seen: list[tuple[dict[str, JSON], str]] = []
    read = Reader(lambda payload, name: seen.append((payload, name)), stateless=True)
    read.open("text/event-stream", "")
    assert read.read(sse({"a": 1}, "ping") + sse({"b": 2})) == []
    assert seen == [({"a": 1}, "ping"), ({"b": 2}, "")]


def test_an_answer_that_was_never_opened_is_not_read() -> None:
    read = Reader(CHAT, stateless=True)
    assert (read.read(said("a")), read.end(), read.readable) == ([], [], False)


def test_a_type_that_holds_no_events_is_not_read() -> None:
    read = reader("text/html")
    assert (read.read(said("a")), read.readable, read.unread) == ([], False, None)


def test_the_terminator_is_seen() -> None:
    read = reader()
    read.read(said("a") + finished())
    assert not read.done
    assert (read.read(DONE), read.done, read.failed) == ([], True, False)


def test_what_is_no_json_is_noted_and_the_rest_is_read() -> None:
    read = reader()
    assert visible(read.read(sse("{oops") + said("ab"))) == [2]
    assert (read.failed, read.readable, read.unread) == (True, True, None)


def test_too_long_an_event_ends_the_reading() -> None:
    read = reader()
    assert visible(read.read(said("ab") + b"data: " + b"x" * (MAX_EVENT_BYTES + 1))) == [2]
    assert (read.unread, read.readable, read.read(b"\n\n" + said("a"))) == ("too_large", False, [])


@pytest.mark.parametrize("encoding", ["gzip", "x-secret"])
def test_what_cannot_be_decoded_is_not_read(encoding: str) -> None:
    read = reader(encoding=encoding)
    assert (read.read(said("a")), read.end()) == ([], [])
    assert (read.unread, read.readable) == ("encoding", False)


def test_giving_up_reads_no_more() -> None:
    read = reader()
    assert visible(read.read(said("ab") + said("cd")[:9])) == [2]
    read.give_up("malformed")
    assert (read.unread, read.read(said("ef")), read.end(), read.recognise(said("x"))) == (
        ("malformed", [], [], 0)
    )


# --- reads that need no parsing -------------------------------------------------------------------


def test_a_read_like_the_one_before_is_recognised() -> None:
    read = reader()
    assert read.recognise(said("ab")) == 0
    read.read(said("ab"))
    assert (read.recognise(said("日本é")), read.hidden) == (3, False)
    assert [read.recognise(other) for other in (thought("a"), finished(), role(), said(""))] == (
        [0, 0, 0, 0]
    )
    read.read(thought("hm"))
    assert (read.recognise(thought("abc")), read.hidden, read.recognise(said("a"))) == (3, True, 0)


def test_inside_an_event_nothing_is_recognised() -> None:
    read = reader()
    read.read(said("ab"))
    read.read(said("cd")[:20])
    assert read.recognise(said("ef")) == 0
    read.read(said("cd")[20:])
    assert read.recognise(said("ef")) == 2


@pytest.mark.parametrize(
    "taught",
    [
        said("a") + said("b"),
        said("a") + b": ping\n\n",
        said("a", usage=counts(1, 2)),
        said("a", error={"message": "x"}),
        sse(chunk({"content": "a"}, "stop")),
        sse(chunk({"content": "a", "reasoning": "b"})),
        sse({"choices": [{"delta": {"content": "a"}, "token_ids": [1]}]}),
        finished(),
        used(1, 2),
        DONE,
    ],
)
def test_an_event_that_tells_more_than_its_text_teaches_nothing(taught: bytes) -> None:
    read = reader()
    read.read(taught)
    assert read.recognise(taught) == 0


def test_a_reader_that_remembers_is_always_asked() -> None:
    read = reader(stateless=False)
    read.read(said("ab"))
    assert read.recognise(said("cd")) == 0


def test_a_compressed_answer_is_always_read() -> None:
    packer = zlib.compressobj(wbits=31)
    read = reader(encoding="gzip")
    assert visible(read.read(packer.compress(said("ab")) + packer.flush(zlib.Z_SYNC_FLUSH))) == [2]
    assert read.recognise(said("cd")) == 0


def test_a_stream_whose_events_keep_changing_is_soon_left_alone() -> None:
    read = reader()
    for number in range(20):
        read.read(said("ab", id=str(number)))
    assert read.recognise(said("cd", id="3")) == 0
    assert read.recognise(said("cd", id="19")) == 0


ANY = st.binary(max_size=30) | st.sampled_from([said("a"), thought("b"), DONE, sse("[" * 9999)])
KINDS = st.sampled_from(["text/event-stream", "application/x-ndjson", "application/json", "", "x"])
CODINGS = st.sampled_from(["", "identity", "gzip", "br", "zstd", "deflate", "gzip, br", "\xff"])


@given(st.lists(ANY, max_size=6), KINDS, CODINGS)
@settings(max_examples=200, deadline=None)
def test_nothing_raises_on_any_bytes(reads: list[Any], kind: str, coding: str) -> None:
    read = reader(kind, coding)
    for data in reads:
        assert read.recognise(data) >= 0
        read.read(data)
    read.end()
    assert read.unread in (None, "encoding", "too_large")
