"""Answers that clients could read in two ways, or that never end, are no answers."""

import asyncio

import httpx
import pytest
from handheld import Talk, hear, talk
from upstreams import chunk, sized

LINE = b"HTTP/1.1 200 OK\r\n"
CHUNKS = chunk(b"hello") + chunk(b"")


def coded(*codings: bytes, version: bytes = b"1.1") -> bytes:
    fields = [b"Transfer-Encoding: " + coding for coding in codings]
    return b"\r\n".join([b"HTTP/%b 200 OK" % version, *fields]) + b"\r\n\r\n" + CHUNKS


@pytest.mark.parametrize(
    "raw",
    [
        coded(b"gzip, chunked"),
        coded(b"gzip"),
        coded(b"chunked, chunked"),
        coded(b"chunked, gzip"),
        coded(b"xchunked"),
        coded(b"gzip", b"chunked"),
        coded(b"chunked;a=b"),
        sized(b"hello").replace(b"1.1", b"2.0"),
        sized(b"hello").replace(b"1.1", b"0.9"),
        sized(b"hello", status=b"000 Nothing"),
        sized(b"hello", status=b"099 Little"),
        sized(b"hello", status=b"20 Short"),
        sized(b"hello", status=b"2000 Long"),
        sized(b"hello", b"Content-Length: 5"),
        sized(b"hello", b"Content-Length: 6"),
        sized(b"hello", b"Transfer-Encoding: chunked"),
        sized(b"hello").replace(b"5", b"+5"),
        sized(b"hello").replace(b"5", b"5, 5"),
        sized(b"hello").replace(b"5", b"5 5"),
        sized(b"hello").replace(b"5", b""),
        sized(b"hello").replace(b"5", b"0x5"),
        sized(b"hello", b"X-A: a\rSet-Cookie: b"),
        sized(b"hello", b"X-A: a\nSet-Cookie: b"),
        sized(b"hello", b"X-A: a\x00b"),
        sized(b"hello", b"X-A: a\r\n folded"),
        sized(b"hello", b"X A: a"),
        sized(b"hello", b": a"),
        sized(b"hello").replace(b"\r\n", b"\n"),
    ],
)
@pytest.mark.parametrize("slowly", [False, True])
def test_answer_that_can_be_read_in_two_ways_is_refused_and_its_connection_cut(
    raw: bytes, slowly: bool
) -> None:
    async def main(talk: Talk) -> None:
        reads = [raw[i : i + 1] for i in range(len(raw))] if slowly else [raw]
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        for read in reads:
            if not talk.wire.aborted:
                talk.say(read)
        with pytest.raises(httpx.RemoteProtocolError, match="invalid HTTP from the upstream"):
            await asking
        talk.answer.close()
        assert talk.kept == [False]
        assert talk.wire.aborted

    talk(main)


@pytest.mark.parametrize(
    "raw",
    [
        coded(b"Chunked"),
        coded(b"chunked", b"chunked"),  # of servers that pass on what another one said
        coded(b"chunked", version=b"1.0"),
        sized(b"hello", status=b"999 Own"),
    ],
)
def test_answer_of_one_meaning_is_taken_however_odd(raw: bytes) -> None:
    async def main(talk: Talk) -> None:
        assert (await hear(talk, raw))[2] == b"hello"

    talk(main)


@pytest.mark.parametrize("reason", [b"a\x00b", b"a\x1bb", b"\x7f"])
def test_reason_that_cannot_be_shown_is_left_out(reason: bytes) -> None:
    async def main(talk: Talk) -> None:
        await hear(talk, sized(b"hello", status=b"200 " + reason))
        assert talk.connection.incoming.reason == b""
        talk.answer.close()
        await hear(talk, sized(b"hello", status=b"200 Tr\xc3\xa8s bien"))
        assert talk.connection.incoming.reason == b"Tr\xc3\xa8s bien"

    talk(main)


ENDLESS = {
    "a status line": (b"HTTP/1.1 200 ", b"x" * 1000),
    "one header": (LINE + b"X-A: ", b"x" * 1000),
    "headers": (LINE, b"X-A: b\r\n" * 100),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 40),
    "empty lines": (b"", b"\r\n" * 500),
    "the size of a chunk": (coded(b"chunked")[:-20] + b"\r\n1;", b"x" * 1000),
    "one trailer": (coded(b"chunked")[:-2] + b"X-A: ", b"x" * 1000),
    "trailers": (coded(b"chunked")[:-2], b"X-A: b\r\n" * 100),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_ended(what: str) -> None:
    begin, more = ENDLESS[what]

    async def main(talk: Talk) -> None:
        asking = asyncio.ensure_future(talk.ask())
        await asyncio.sleep(0)
        talk.say(begin or b"\r\n")
        for _ in range(1000):
            if talk.wire.aborted:
                break
            talk.say(more)
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
            await talk.read()
        assert talk.wire.aborted

    talk(main)


def test_large_head_and_many_interim_answers_are_taken() -> None:
    async def main(talk: Talk) -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
        raw = interim + sized(b"hello", b"X-A: " + b"x" * 100_000)
        assert (await hear(talk, *(raw[i : i + 5000] for i in range(0, len(raw), 5000))))[2] == (
            b"hello"
        )

    talk(main)


def test_long_stream_of_small_chunks_with_large_extensions_has_no_limit() -> None:
    async def main(talk: Talk) -> None:
        head = coded(b"chunked")[: -len(CHUNKS)]
        reads = [b"1;%b\r\na\r\n" % (b"x" * 10_000)] * 60
        assert (await hear(talk, head, *reads, chunk(b"")))[2] == b"a" * 60

    talk(main)


@pytest.mark.parametrize("raw", [sized(b"hello")[:-5], coded(b"chunked")[: -len(CHUNKS)]])
def test_connection_is_kept_behind_the_answer_to_a_head(raw: bytes) -> None:
    async def main(talk: Talk) -> None:
        for _ in range(3):
            await hear(talk, raw, headless=True)
            talk.answer.close()
            assert (await hear(talk, sized(b"hello")))[2] == b"hello"
            talk.answer.close()
        assert talk.kept == [True] * 6

    talk(main)


@pytest.mark.parametrize("apart", [False, True])
def test_body_behind_the_answer_to_a_head_poisons_the_connection(apart: bool) -> None:
    async def main(talk: Talk) -> None:
        raw = sized(b"hello")
        await hear(talk, *([raw[:-5], raw[-5:]] if apart else [raw]), headless=True)
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)


def test_connection_of_an_old_answer_with_a_coding_takes_no_other_request() -> None:
    async def main(talk: Talk) -> None:
        raw = coded(b"chunked\r\nConnection: keep-alive", version=b"1.0")
        assert (await hear(talk, raw))[2] == b"hello"
        talk.answer.close()
        assert talk.kept == [False]

    talk(main)
