"""What is understood of an answer, read by read; what is refused is in test_connection_faults."""

from typing import Any

import httptools
import pytest

from proxy.incoming import Incoming

HEAD = b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCH = b"HTTP/1.1 101 S\r\nConnection: x, Upgrade\r\nUpgrade: WebSocket\r\n\r\n"


class Heard:
    """An answer, and what was told of it."""

    def __init__(self, *reads: bytes, **expected: Any) -> None:
        self.begun = 0
        self.interim: list[int] = []
        self.incoming = Incoming(self._begin)
        self.incoming.expect(inform=lambda status, *_: self.interim.append(status), **expected)
        for data in reads:
            self.incoming.feed(data)

    def _begin(self) -> None:
        self.begun += 1


def test_head_body_and_end() -> None:
    heard = Heard(HEAD[:20], HEAD[20:])
    incoming = heard.incoming
    assert (heard.begun, incoming.status, incoming.reason) == (1, 200, b"Fine")
    assert incoming.headers == [(b"Content-Length", b"2")]
    assert (incoming.framed, incoming.keep, incoming.ended) == (True, True, False)
    incoming.feed(b"ok")
    assert (incoming.pieces, incoming.ended) == ([b"ok"], True)
    incoming.expect()
    assert (incoming.status, incoming.headers, incoming.pieces, incoming.ended) == (
        0,
        [],
        [],
        False,
    )


def test_where_a_chunk_ends() -> None:
    incoming = Heard(CHUNKED, b"2\r\nok\r\n").incoming
    assert incoming.chunk_over
    incoming.feed(b"2\r\no")
    assert (incoming.chunk_over, incoming.pieces) == (False, [b"ok", b"o"])
    incoming.feed(b"k\r\n0\r\nTrailer: x\r\n\r\n")
    assert incoming.ended
    assert incoming.headers == [(b"Transfer-Encoding", b"chunked")]


def test_interim_answers_are_told_apart() -> None:
    heard = Heard(b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n" * 2 + HEAD)
    assert (heard.interim, heard.begun, heard.incoming.status) == ([103, 103], 1, 200)
    assert heard.incoming.reason == b"Fine"


def test_a_second_answer_counts_for_nothing_and_ends_the_connection() -> None:
    incoming = Heard(HEAD + b"ok" + HEAD.replace(b"200", b"500") + b"no").incoming
    assert (incoming.status, incoming.pieces) == (200, [b"ok"])
    assert (incoming.ended, incoming.keep) == (True, False)


def test_the_answer_to_a_head_has_no_body() -> None:
    incoming = Heard(HEAD, headless=True).incoming
    assert (incoming.ended, incoming.keep) == (True, True)
    incoming.feed(b"ok")
    assert (incoming.pieces, incoming.keep) == ([], False)


@pytest.mark.parametrize(
    ("head", "open_end"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\n", True),
        (HEAD, False),
        (CHUNKED, False),
        (b"HTTP/1.1 204 No\r\n\r\n", False),
        (b"HTTP/1.1 304 No\r\n\r\n", False),
    ],
)
def test_a_body_without_a_length_ends_with_the_connection(head: bytes, open_end: bool) -> None:
    assert Heard(head).incoming.ends_with_the_connection == open_end


def test_another_protocol_begins_where_it_was_offered() -> None:
    with pytest.raises(httptools.HttpParserUpgrade):
        Heard(SWITCH, switches=b"h3, websocket")
    for offered in (b"", b"h3"):
        with pytest.raises(httptools.HttpParserError):
            Heard(SWITCH, switches=offered)
