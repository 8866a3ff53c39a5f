"""The quick way takes a read only if the long way would do and tell the same."""

from typing import cast

import pytest
from handheld import Talk, hear, talk
from hypothesis import given
from hypothesis import strategies as st
from playing import ASK, T0
from proxy_rig import Clock
from upstreams import EVENTS, chunk
from wire import DONE, finished, role, said

from proxy.answer import Shortcut
from proxy.client import Client
from proxy.formats import interface
from proxy.meter import Meter
from proxy.shortcut import shortcut
from proxy.tokens import Learned

FIRST = "first"


class Taker:
    """A client as far as the quick way sees it."""

    def __init__(self, chunked: bool) -> None:
        self.gone = False
        self.written: list[bytes] = []
        self.takes_framed = self.written.append if chunked else None


class Quick:
    """The quick way of a stream that has had its first text, and what comes out at its ends."""

    def __init__(self, chunked: bool = True) -> None:
        face = interface("/v1/chat/completions")
        call = face.call(dict(ASK), "/v1/chat/completions")
        self.meter = Meter(call, face.event, Learned(), T0, 2.0)
        self.meter.head(200, "text/event-stream", "", T0)
        self.meter.read(role(), T0 + 1)
        self.meter.read(said(FIRST), T0 + 2)
        assert self.meter.expects is not None
        self.clock = Clock()
        self.clock.now = T0 + 3
        self.client = Taker(chunked)
        self.moved: list[float] = []
        self.long: list[tuple[bytes, float]] = []
        self.way = shortcut(
            self.meter.expects,
            cast(Client, self.client),
            self.meter,
            self.clock,
            self.moved.append,
            lambda data, at: self.long.append((data, at)),
        )

    def take(self, *reads: bytes) -> None:
        assert self.way is not None
        for data in reads:
            self.way.take(data)


def test_a_read_like_those_before_goes_on_as_it_came_and_is_counted() -> None:
    quick = Quick()
    quick.take(chunk(said("ab")), chunk(said("日本é")))
    assert quick.client.written == [chunk(said("ab")), chunk(said("日本é"))]
    assert (quick.meter.arrivals, quick.meter.lengths) == ([T0 + 3, T0 + 3], [2, 3])
    assert quick.long == []


@pytest.mark.parametrize(
    "data",
    [
        chunk(finished()),
        chunk(DONE),
        chunk(said("")),
        chunk(said("ab")).replace(b'"ab"', b'"a\nb"'),
        chunk(said("ab")).replace(b'"ab"', b'"a\\"'),
        chunk(said("ab")).replace(b'"ab"', b'"a"b'),
        chunk(said("ab", usage={"prompt_tokens": 1, "completion_tokens": 1})),
        chunk(said("ab"))[:-1],
        chunk(said("ab")) + b"\n",
        chunk(said("ab")) + chunk(said("cd")),
        chunk(said("ab") + said("cd")),
        b"1" + chunk(said("ab")),
        b"+" + chunk(said("ab")),
        chunk(said("ab"))[:2].upper() + b";x\r\n" + said("ab") + b"\r\n",
        said("ab"),
        chunk(said("x" * 5000)),
        b"",
        b"\r\n",
    ],
)
def test_anything_else_goes_the_long_way(data: bytes) -> None:
    quick = Quick()
    quick.take(data)
    assert quick.long == [(data, T0 + 3)]
    assert (quick.client.written, quick.meter.arrivals, quick.meter.lengths) == ([], [], [])


@given(st.lists(st.text(st.characters(codec="utf-8")) | st.binary(max_size=40), max_size=8))
def test_for_any_reads_the_quick_way_tells_what_parsing_does(parts: list[str | bytes]) -> None:
    quick = Quick()
    for part in parts:
        data = part if isinstance(part, bytes) else chunk(said(part))
        expected = quick.meter.recognise(said(part)) if isinstance(part, str) else 0
        quick.take(data)
        assert bool(expected) == (quick.client.written[-1:] == [data] and not quick.long)
        assert quick.meter.lengths[-1:] == ([expected] if expected else [])
        for kept in (quick.client.written, quick.long, quick.meter.arrivals, quick.meter.lengths):
            kept.clear()


def test_nothing_is_written_to_a_client_that_left() -> None:
    quick = Quick()
    quick.client.gone = True
    quick.take(chunk(said("ab")))
    assert (quick.client.written, quick.long) == ([], [(chunk(said("ab")), T0 + 3)])


def test_one_read_is_told_of_until_the_meter_was_asked() -> None:
    quick = Quick()
    quick.take(chunk(said("ab")), chunk(said("cd")))
    assert quick.moved == [T0 + 3]
    assert quick.meter.progress() is not None
    quick.clock.now += 1
    quick.take(chunk(said("ef")))
    assert quick.moved == [T0 + 3, T0 + 4]


def test_the_last_arrival_is_known_before_and_after_the_meter_was_asked() -> None:
    quick = Quick()
    assert isinstance(quick.way, Shortcut)
    assert quick.way.last() == T0 + 2
    quick.take(chunk(said("ab")))
    assert quick.way.last() == T0 + 3
    quick.meter.progress()
    assert quick.way.last() == T0 + 3


def test_lengths_that_never_end_are_not_all_kept_in_mind() -> None:
    quick = Quick()
    for length in range(1, 200):
        quick.take(chunk(said("x" * length)))
    assert quick.meter.lengths == list(range(1, 200))
    assert quick.long == []


def test_a_client_that_takes_no_chunks_has_no_quick_way() -> None:
    assert Quick(chunked=False).way is None


# --- the connection's side ------------------------------------------------------------------------


def through(talk: Talk) -> list[bytes]:
    """Reads that a way of the connection's gets from now on."""
    taken: list[bytes] = []
    talk.answer.shorten(Shortcut(taken.append, lambda: talk.clock.now))
    return taken


def test_only_between_chunks_may_a_read_go_the_quick_way() -> None:
    async def main(talk: Talk) -> None:
        await talk.begin(EVENTS)
        taken = through(talk)
        talk.say(chunk(b"one"))
        talk.say(chunk(b"two"))
        assert taken == [chunk(b"two")]
        talk.connection.received(chunk(b"three")[:-3], talk.clock.now)
        talk.say(b"e\r\n")
        talk.say(chunk(b"four"))
        assert taken == [chunk(b"two"), chunk(b"four")]

    talk(main)


def test_the_next_exchange_of_a_connection_begins_the_long_way() -> None:
    async def main(talk: Talk) -> None:
        await talk.begin(EVENTS)
        taken = through(talk)
        talk.say(chunk(b"one"))
        talk.connection.received(b"0\r\n\r\n", talk.clock.now)
        talk.answer.close()
        assert talk.kept == [True]
        _, _, body = await hear(talk, EVENTS, chunk(b"two"), chunk(b""))
        assert (body, taken) == (b"two", [])

    talk(main)
