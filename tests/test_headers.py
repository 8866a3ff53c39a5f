"""Which header pairs cross, each way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.headers import Fields, Pair, identity_only, to_client, to_upstream

HOP_BY_HOP: list[Pair] = [
    (b"Connection", b"keep-alive"),
    (b"Keep-Alive", b"timeout=5"),
    (b"Proxy-Authenticate", b"Basic"),
    (b"Proxy-Authorization", b"Basic eA=="),
    (b"Proxy-Connection", b"keep-alive"),
    (b"TE", b"trailers"),
    (b"Trailer", b"X-Sum"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Upgrade", b"h2c"),
]
HOST = (b"Host", b"engine:8000")
ODD: list[Pair] = [
    (b"X-B", b"2"),
    (b"x-a", b"1"),
    (b"X-B", b"3"),
    (b"X-Empty", b""),
    (b"x-B", b" 4 "),
    (b"X-Bytes", b"\xff\xe9"),
]


@pytest.mark.parametrize("pair", HOP_BY_HOP)
def test_hop_by_hop_fields_do_not_cross(pair: Pair) -> None:
    for name in (pair[0], pair[0].lower(), pair[0].upper()):
        assert to_upstream([*ODD, (name, pair[1])], None) == ODD
        assert to_client([(name, pair[1]), *ODD], False) == ODD


def test_fields_that_connection_names_do_not_cross() -> None:
    named: list[Pair] = [(b"X-Here", b"1"), (b"x-there", b"2"), (b"X-Stay", b"3")]
    pairs = [*named, (b"connection", b"close, x-here"), (b"Connection", b" ,X-There,,")]
    assert to_upstream(pairs, None) == named[2:]
    assert to_client(pairs, False) == named[2:]


def test_order_case_and_repetitions_stay() -> None:
    assert to_upstream(ODD, None) == ODD
    assert to_client(ODD, False) == ODD
    cookies: list[Pair] = [(b"Set-Cookie", b"a=1"), (b"Set-Cookie", b"b=2"), (b"Date", b"x")]
    assert to_client(cookies, False) == cookies


def test_the_host_becomes_the_upstreams() -> None:
    pairs = [(b"Accept", b"*/*"), (b"hOST", b"meter:8080"), (b"X-A", b"1")]
    assert to_upstream(pairs, HOST[1]) == [pairs[0], (b"hOST", HOST[1]), pairs[2]]


def test_the_host_may_be_kept() -> None:
    pairs = [(b"Host", b"meter:8080"), (b"X-A", b"1")]
    assert to_upstream(pairs, None) == pairs
    assert to_upstream(pairs[1:], None) == pairs[1:]


def test_a_request_without_a_host_gets_one() -> None:
    assert to_upstream([(b"X-A", b"1")], HOST[1]) == [HOST, (b"X-A", b"1")]


def test_there_is_one_host_even_where_connection_names_it() -> None:
    pairs = [(b"Host", b"a"), (b"Host", b"b"), (b"Connection", b"host")]
    assert to_upstream(pairs, HOST[1]) == [HOST]
    assert to_upstream(pairs, None) == [(b"Host", b"a")]


def test_who_sends_the_body_says_how_long_it_is() -> None:
    pairs = [(b"Content-Length", b"5"), (b"Content-Type", b"a/b"), (b"Expect", b"100-continue")]
    assert to_upstream(pairs, None) == [(b"Content-Type", b"a/b")]
    assert to_client(pairs[:2], False) == pairs[:2]


QUIET = (b"X-Accel-Buffering", b"no")


def test_event_streams_that_lack_it_ask_for_no_buffering() -> None:
    assert to_client([(b"A", b"1")], True) == [(b"A", b"1"), QUIET]


@pytest.mark.parametrize("pair", [QUIET, (b"x-accel-buffering", b"yes")])
def test_what_the_upstream_says_of_buffering_stays(pair: Pair) -> None:
    assert to_client([pair, (b"A", b"1")], True) == [pair, (b"A", b"1")]


def test_other_answers_get_nothing_added() -> None:
    assert to_client([(b"A", b"1")], False) == [(b"A", b"1")]
    assert to_client([], False) == []


def test_a_plain_answer_is_asked_for() -> None:
    pairs = [(b"accept-encoding", b"gzip"), (b"A", b"1"), (b"Accept-Encoding", b"br")]
    plain = (b"Accept-Encoding", b"identity")
    assert identity_only(pairs) == [(b"A", b"1"), plain]
    assert identity_only([]) == [plain]


def test_the_first_value_counts() -> None:
    pairs = [(b"X-A", b" one "), (b"x-a", b"two")]
    assert (Fields(pairs)[b"x-a"], Fields(pairs)[b"x-b"]) == ("one", "")
    assert Fields([(b"X-A", b"\xe9")])[b"x-a"] == "\xe9"


PAIRS = st.lists(
    st.tuples(
        st.sampled_from([b"Host", b"X-A", b"x-b", b"Connection", b"TE", b"Content-Length", b""]),
        st.binary(max_size=5) | st.sampled_from([b"x-a", b"close, X-B"]),
    ),
    max_size=8,
)


@given(PAIRS, st.none() | st.just(b"engine"), st.booleans())
@settings(deadline=None)
def test_nothing_is_invented_and_no_input_is_changed(
    pairs: list[Pair], host: bytes | None, event_stream: bool
) -> None:
    before = list(pairs)
    up, down = to_upstream(pairs, host), to_client(pairs, event_stream)
    assert pairs == before
    assert [pair for pair in up if pair[0] != b"Host"] == (
        [pair for pair in pairs if pair in up and pair[0] != b"Host"]
    )
    assert sum(name == b"Host" for name, _ in up) <= 1
    assert [pair for pair in down if pair != QUIET] == [pair for pair in pairs if pair in down]
