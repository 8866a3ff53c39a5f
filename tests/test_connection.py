"""One connection on a wire that the test holds in its hands, with a clock of its own."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy_rig import Clock
from upstreams import chunk, sized

from proxy.connection import Answer, Connection, StaleConnection


class Wire(asyncio.Transport):
    """What a connection does to its socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


class Talk:
    """A connection with one exchange on it, or one after the other."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.wire = Wire()
        self.connection = Connection(self.clock)
        self.connection.connection_made(self.wire)
        self.kept: list[bool] = []
        self.answer: Answer

    async def ask(self, headless: bool = False, idle: float | None = None) -> None:
        """Ask; returns when the head of the answer has come."""
        self.answer = Answer(self.connection, lambda each: self.kept.append(each.rest()))
        await self.connection.ask(b"GET / HTTP/1.1\r\n\r\n", b"", self.answer, headless, idle)

    def say(self, data: bytes) -> None:
        """A read of the upstream; a second passes before it."""
        self.clock.now += 1
        self.connection.data_received(data)

    async def read(self) -> list[tuple[bytes, float]]:
        """The rest of the body, by its reads."""
        got: list[tuple[bytes, float]] = []

        def sink(data: bytes, at: float, framed: bytes | None) -> None:
            assert framed in (None, chunk(data))
            got.append((data, at))

        await self.answer.pour(sink)
        return got


def talk(main: Callable[[Talk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):  # nothing here waits
            await main(Talk())

    asyncio.run(run())


async def hear(talk: Talk, *reads: bytes, **how: Any) -> tuple[int, Any, bytes]:
    """Ask, say these reads, and what was understood: status, header pairs, body."""
    asking = asyncio.ensure_future(talk.ask(**how))
    await asyncio.sleep(0)
    for data in filter(None, reads):
        talk.say(data)
    await asking
    body = b"".join(data for data, _ in await talk.read())
    return talk.connection.status, talk.connection.headers, body


CHUNKED = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
ODD = b"0\r\n\r\n5\r\na\r\n"  # looks like framing
WHOLE = [
    (sized(b"hello", b"X-A: 1"), b"hello"),
    (sized(b"", b"X-A: 1"), b""),
    (b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", b""),
    (b"HTTP/1.1 304 Not Modified\r\nX-A: 1\r\nContent-Length: 9\r\n\r\n", b""),
    (CHUNKED + chunk(b"one") + chunk(b"\r\n0\r\n\r\n") + chunk(b""), b"one\r\n0\r\n\r\n"),
    (CHUNKED + chunk(b"one") + b"0\r\nX-T: 2\r\nX-U:\r\n\r\n", b"one"),
    (CHUNKED + b"1\r\na\r\n03;x=y\r\n\r\n\r\r\n0B\r\n" + ODD + b"\r\n0\r\n\r\n", b"a\r\n\r" + ODD),
    (b"HTTP/1.1 100 Continue\r\nX-Z: 1\r\n\r\n" + sized(b"hello", b"X-A: 1"), b"hello"),
    (b"\r\n" + sized(b"hello", b"X-A: 1"), b"hello"),
]


@pytest.mark.parametrize(("raw", "body"), WHOLE)
def test_answer_cut_anywhere_is_the_same_answer(raw: bytes, body: bytes) -> None:
    async def main(talk: Talk) -> None:
        for at in range(len(raw) + 1):
            status, headers, got = await hear(talk, raw[:at], raw[at:])
            assert status in (200, 204, 304)
            assert got == body
            assert headers[0] == (b"X-A", b"1")
            assert not [name for name, _ in headers if name in (b"X-T", b"X-Z")]
            assert talk.answer.complete
            talk.answer.close()
        assert talk.kept == [True] * (len(raw) + 1)

    talk(main)


@pytest.mark.parametrize(("raw", "body"), WHOLE)
def test_answer_one_byte_at_a_time_is_the_same_answer(raw: bytes, body: bytes) -> None:
    async def main(talk: Talk) -> None:
        for _ in range(2):
            _, _, got = await hear(talk, *(raw[i : i + 1] for i in range(len(raw))))
            assert got == body
            talk.answer.close()
        assert talk.kept == [True, True]

    talk(main)


def cuts(raw: bytes, at: list[int]) -> Iterator[bytes]:
    places = sorted({min(place, len(raw)) for place in at} | {0, len(raw)})
    for start, end in itertools.pairwise(places):
        yield raw[start:end]


LIKE_FRAMING = st.sampled_from([b"0\r\n\r\n", b"5\r\n", b"\r\n", b"x" * 5000])


@given(
    st.lists(st.binary(min_size=1, max_size=40) | LIKE_FRAMING),
    st.lists(st.integers(min_value=0, max_value=600)),
    st.lists(st.integers(min_value=0, max_value=20)),
)
def test_chunks_in_any_reads_are_the_same_body(
    texts: list[bytes], inside: list[int], borders: list[int]
) -> None:
    """`borders` cut between chunks, as servers write them, `inside` anywhere."""
    chunks = [chunk(text) for text in [*texts, b""]]
    ends = [sum(map(len, chunks[:count])) for count in range(len(chunks) + 1)]
    places = inside + [ends[border % len(ends)] for border in borders]

    async def main(talk: Talk) -> None:
        _, _, body = await hear(talk, CHUNKED, *cuts(b"".join(chunks), places))
        assert body == b"".join(texts)
        talk.answer.close()
        assert talk.kept == [True]

    talk(main)


@given(st.lists(st.binary(max_size=60)))
def test_no_bytes_are_too_strange(reads: list[bytes]) -> None:
    """Whatever comes, there is an answer or an error, and a broken connection is not kept."""

    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        for data in reads:
            if not talk.wire.aborted:
                talk.say(data)
        talk.connection.connection_lost(None)
        with pytest.raises(httpx.TransportError):
            await asking
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_each_read_has_its_arrival_time() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED[:10])
        talk.say(CHUNKED[10:] + chunk(b"a"))
        talk.say(chunk(b"b") + chunk(b"c"))
        await asking
        assert talk.connection.arrived == 1003
        reading = asyncio.ensure_future(talk.read())
        await asyncio.sleep(0)
        talk.say(chunk(b"d"))
        talk.say(b"1\r\n")  # of the framing alone
        talk.say(b"e\r\n0\r\n\r\n")
        assert await reading == [(b"a", 1002), (b"bc", 1003), (b"d", 1004), (b"e", 1006)]
        assert talk.answer.arrived == 1006

    talk(main)


@pytest.mark.parametrize(
    "surplus",
    [b"garbage", b"HTTP/1.1 200 O", sized(b"another", status=b"500 Other"), b"\x00"],
)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("whole", [sized(b"hello"), CHUNKED + chunk(b"hello") + chunk(b"")])
def test_what_comes_behind_an_answer_does_not_change_it_and_poisons_the_connection(
    whole: bytes, surplus: bytes, apart: bool
) -> None:
    async def main(talk: Talk) -> None:
        reads = [whole, surplus] if apart else [whole + surplus]
        assert (await hear(talk, *reads))[::2] == (200, b"hello")
        assert talk.connection.reason == b"OK"
        talk.answer.close()
        assert talk.kept == [False]
        assert talk.wire.aborted

    talk(main)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_connection_that_the_upstream_wants_closed_is_not_kept(version: bytes) -> None:
    async def main(talk: Talk) -> None:
        raw = sized(b"hello", b"Connection: close").replace(b"1.1", version, 1)
        assert (await hear(talk, raw))[2] == b"hello"
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_bytes_that_nobody_asked_for_close_an_idle_connection() -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        assert talk.kept == [True]
        talk.say(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert talk.wire.aborted

    talk(main)


def test_answer_to_head_has_no_body_whatever_it_says() -> None:
    async def main(_: Talk) -> None:
        for raw in (sized(b"hello")[:-5], CHUNKED, sized(b"")):
            fresh = Talk()
            assert (await hear(fresh, raw, headless=True))[2] == b""
            assert fresh.answer.complete

    talk(main)


@pytest.mark.parametrize(
    ("said", "problem", "error"),
    [
        (b"", None, StaleConnection),
        (b"", ConnectionResetError(), StaleConnection),
        (b"H", None, httpx.ReadError),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ConnectionResetError(), httpx.ReadError),
    ],
)
def test_kept_connection_is_stale_only_before_the_first_byte(
    said: bytes, problem: Exception | None, error: type[Exception]
) -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        if said:
            talk.say(said)
        talk.connection.connection_lost(problem)
        with pytest.raises(error):
            await asking

    talk(main)


def test_connection_that_is_lost_before_it_is_asked_is_stale_only_if_it_was_kept() -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b""))
        talk.answer.close()
        talk.connection.connection_lost(None)
        with pytest.raises(StaleConnection):
            await talk.ask()
        fresh = Talk()
        fresh.connection.connection_lost(None)
        with pytest.raises(httpx.ReadError):
            await fresh.ask()

    talk(main)


@pytest.mark.parametrize(
    ("head", "problem", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None, True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", None, True),
        (b"HTTP/1.1 200 OK\r\n\r\n", ConnectionResetError(), False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", None, False),
        (b"HTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", None, True),
    ],
)
def test_end_of_the_connection_ends_only_an_unframed_body(
    head: bytes, problem: Exception | None, whole: bool
) -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(head + b"text")
        await asking
        reading = asyncio.ensure_future(talk.read())
        await asyncio.sleep(0)
        talk.connection.connection_lost(problem)
        if whole:
            assert [data for data, _ in await reading] == [b"text"]
        else:
            with pytest.raises(httpx.ReadError):
                await reading
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_bytes_that_nobody_takes_yet_pause_reading() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 60_000)
        assert talk.wire.reading
        talk.say(b"x" * 60_000)
        assert not talk.wire.reading
        await asking
        reading = asyncio.ensure_future(talk.read())
        await asyncio.sleep(0)
        assert talk.wire.reading
        talk.say(b"x" * 80_000)
        assert [len(data) for data, _ in await reading] == [60_000, 60_000, 80_000]

    talk(main)


def test_taker_that_is_full_at_the_first_bytes_is_given_no_more() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 120_000)
        await asking
        pouring = asyncio.ensure_future(talk.answer.pour(lambda *_: talk.answer.pause()))
        await asyncio.sleep(0)
        assert not talk.wire.reading
        talk.answer.resume()
        assert talk.wire.reading
        pouring.cancel()

    talk(main)


def test_mistake_of_the_taker_is_raised_where_it_waits() -> None:
    def mistaken(data: bytes, at: float, framed: bytes | None) -> None:
        raise KeyError(data)

    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED)
        await asking
        pouring = asyncio.ensure_future(talk.answer.pour(mistaken))
        await asyncio.sleep(0)
        talk.say(chunk(b"x"))
        with pytest.raises(KeyError):
            await pouring
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_httpx_can_iterate_an_answer_which_is_not_read_ahead() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED + chunk(b"a"))
        await asking
        got = []
        async for data in talk.answer:
            assert not talk.wire.reading
            got.append(data)
            if len(got) < 3:
                asyncio.get_running_loop().call_soon(talk.say, chunk(b"bc"[len(got) - 1 :][:1]))
            else:
                asyncio.get_running_loop().call_soon(talk.say, chunk(b""))
        assert got == [b"a", b"b", b"c"]

    talk(main)


def test_iteration_ends_with_the_error_of_the_connection() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(CHUNKED + chunk(b"a"))
        await asking
        talk.connection.connection_lost(None)
        with pytest.raises(httpx.ReadError):
            assert [data async for data in talk.answer] == [b"a"]

    talk(main)


def test_answer_that_is_given_up_cuts_the_connection_and_the_upload() -> None:
    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(sized(b"early", status=b"413 Too Large"))
        await asking
        upload = asyncio.ensure_future(asyncio.sleep(3600))
        talk.answer.owns(upload)
        assert [data for data, _ in await talk.read()] == [b"early"]
        talk.answer.close()
        await asyncio.gather(upload, return_exceptions=True)
        assert upload.cancelled()
        assert talk.kept == [False]  # the request on it is only half sent

    talk(main)


def test_writer_waits_while_the_socket_is_full_and_no_longer_than_the_connection_lives() -> None:
    async def main(talk: Talk) -> None:
        await talk.connection.drain()
        for free in (talk.connection.resume_writing, lambda: talk.connection.connection_lost(None)):
            talk.connection.pause_writing()
            draining = asyncio.ensure_future(talk.connection.drain())
            await asyncio.sleep(0)
            assert not draining.done()
            free()
            await draining
        talk.connection.write(b"lost")
        assert b"lost" not in talk.wire.written

    talk(main)
