"""One connection: whatever the reads, the answer is the one that was sent."""

import asyncio
import itertools
from collections.abc import Iterator

import httpx
import pytest
from handheld import Talk, hear, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from upstreams import chunk, sized

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


def test_data_that_looks_like_a_chunk_is_data() -> None:
    async def main(talk: Talk) -> None:
        reads = [
            CHUNKED,
            chunk(b"one"),
            b"8\r\n",
            chunk(b"abc"),
            b"\r\n",
            chunk(b"two"),
            chunk(b""),
        ]
        assert (await hear(talk, *reads))[2] == b"one" + chunk(b"abc") + b"two"

    talk(main)


def cuts(raw: bytes, at: list[int]) -> Iterator[bytes]:
    places = sorted({min(place, len(raw)) for place in at} | {0, len(raw)})
    for start, end in itertools.pairwise(places):
        yield raw[start:end]


LIKE_FRAMING = st.sampled_from([b"0\r\n\r\n", b"5\r\n", b"\r\n", b"x" * 5000])


@settings(deadline=None)
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


@settings(deadline=None)
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
        assert talk.connection.incoming.reason == b"OK"
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
