"""Heads of requests that servers could read in two ways, and those that they cannot."""

import asyncio
import re

import pytest
from clients import get
from hypothesis import given
from hypothesis import strategies as st
from proxy_rig import play, proxying
from upstreams import answering, sized

from proxy import errors
from proxy.admission import MAX_HEADERS, METHOD, fault
from proxy.errors import Failure
from proxy.headers import Pair

HOST = (b"Host", b"a")


@pytest.mark.parametrize("host", [b"a", b"a:1", b"[::1]:80", b"a.b-c_d:", b"", b" a "])
def test_one_host_is_let_in(host: bytes) -> None:
    assert fault("1.1", b"/", [(b"hOsT", host)]) is None


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [b"a", b"a"],
        [b"a", b"b"],
        [b"a b"],
        [b"a,b"],
        [b"a/b"],
        [b"a@b"],
        [b"a#b"],
        [b"a?b"],
        [b"a\\b"],
        [b"\xe4"],
        [b"a:b"],
        [b"[::1"],
        [b"a:1:1"],
    ],
)
def test_no_host_two_and_what_is_none_are_refused(hosts: list[bytes]) -> None:
    assert fault("1.1", b"/", [(b"Host", host) for host in hosts]) is errors.BAD_HOST


def test_an_old_client_needs_no_host_but_may_not_send_two() -> None:
    assert fault("1.0", b"/", []) is None
    assert fault("1.0", b"/", [HOST, HOST]) is errors.BAD_HOST


@pytest.mark.parametrize("version", ["0.9", "2.0", "1.2", ""])
def test_other_versions_are_refused(version: str) -> None:
    assert fault(version, b"/", [HOST]) is errors.VERSION


@pytest.mark.parametrize(
    "codings",
    [
        [b"gzip, chunked"],
        [b"chunked, chunked"],
        [b"chunked", b"chunked"],
        [b"identity", b"chunked"],
        [b"identity"],
        [b"xchunked"],
        [b"chunked;q=1"],
        [b'"chunked"'],
        [b",chunked"],
        [b"chunked,"],
        [b"\x0bchunked"],
        [b""],
    ],
)
def test_only_plain_chunked_is_a_transfer_coding(codings: list[bytes]) -> None:
    pairs = [HOST, *((b"TRANSFER-encoding", coding) for coding in codings)]
    assert fault("1.1", b"/", pairs) is errors.BAD_CODING


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked", b" chunked\t"])
def test_chunked_is_let_in_but_not_of_old_clients(coding: bytes) -> None:
    pairs = [HOST, (b"Transfer-Encoding", coding)]
    assert fault("1.1", b"/", pairs) is None
    assert fault("1.0", b"/", pairs) is errors.BAD_REQUEST


@pytest.mark.parametrize(
    "target", [b"/a#b", b"http://u:p@a/", b"http:///a", b"http://", b"http://a b/", b"https://a,b/"]
)
def test_targets_of_two_meanings_are_refused(target: bytes) -> None:
    assert fault("1.1", target, [HOST]) is errors.BAD_TARGET


@pytest.mark.parametrize(
    "target", [b"/", b"//a", b"http://a/b?c", b"*", b"/http://x", b"/?http://"]
)
def test_other_targets_are_for_the_router_to_judge(target: bytes) -> None:
    assert fault("1.1", target, [HOST]) is None


def test_a_head_has_a_number_of_headers_and_a_size() -> None:
    many = [(b"a", b"")] * (MAX_HEADERS - 1)
    assert fault("1.1", b"/", [HOST, *many]) is None
    assert fault("1.1", b"/", [HOST, *many, (b"a", b"")]) is errors.HEAD_TOO_LARGE
    assert fault("1.1", b"/" + b"x" * 65_000, [HOST]) is None
    assert fault("1.1", b"/" + b"x" * 66_000, [HOST]) is errors.HEAD_TOO_LARGE
    assert fault("1.1", b"/", [HOST, (b"a", b"x" * 66_000)]) is errors.HEAD_TOO_LARGE


PAIRS = st.lists(
    st.tuples(
        st.sampled_from([b"Host", b"host", b"Transfer-Encoding", b"x"]) | st.binary(max_size=20),
        st.sampled_from([b"chunked", b"a", b"gzip"]) | st.binary(max_size=20),
    ),
    max_size=6,
)


@given(st.sampled_from(["1.0", "1.1", "2.0"]), st.binary(max_size=40), PAIRS)
def test_whatever_a_head_holds_it_is_let_in_or_refused(
    version: str, target: bytes, pairs: list[Pair]
) -> None:
    found = fault(version, target, pairs)
    assert found is None or isinstance(found, Failure)
    if found is None:
        assert [n.lower() for n, _ in pairs].count(b"host") <= 1
        assert [n.lower() for n, _ in pairs].count(b"transfer-encoding") <= 1


@pytest.mark.parametrize(
    "method", [b"FOO", b"get", b"M-SEARCH", b"PURGE", b"X!#$%&'*+.^_`|~", b"PRICE"]
)
def test_any_method_goes_through(method: bytes) -> None:
    assert METHOD.match(method + b" /")

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):
                head = method + b" /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
                assert (await client.ask(head, b"hi")).status == 200
                assert (await client.ask(get(b"/y"))).status == 200
            lines = [heard.line for heard in upstream.heard]
            assert lines == [method + b" /x HTTP/1.1", b"GET /y HTTP/1.1"] * 2
            assert [heard.body for heard in upstream.heard] == [b"hi", b""] * 2

    play(main)


UNKNOWN = [b"FOO", b"GETT", b"g", b"DESCRIBE", b"SET_PARAMETER", b"CONNECTED"]
CUT_REQUEST = b" /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize("method", UNKNOWN)
def test_any_method_goes_through_however_it_is_cut(method: bytes) -> None:
    whole = method + CUT_REQUEST

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for place in range(1, len(method) + 30):
                client.send(whole[:place])
                await asyncio.sleep(0.001)
                assert (await client.ask(whole[place:])).status == 200
            for byte in whole:
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.answer()).status == 200
            seen = {(heard.line, heard.body) for heard in upstream.heard}
            assert seen == {(method + b" /x HTTP/1.1", b"hi")}

    play(main)


@pytest.mark.parametrize("method", UNKNOWN)
@pytest.mark.parametrize(
    "before",
    [
        get(b"/y"),
        b"\r\n",
        b"POST /y HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n\r\n\r\n\r\n",
        b"POST /y HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4\r\n\r\n\r\n\r\n0\r\na: b\r\n\r\n",
        b"BAR" + CUT_REQUEST,
    ],
    ids=["get", "empty line", "length", "chunks", "unknown"],
)
def test_any_method_goes_through_behind_another_request(before: bytes, method: bytes) -> None:
    stream = before + (method + CUT_REQUEST) * 2
    answers = 2 + before.endswith((b"\r\n\r\n", b"hi"))

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for place in range(1, len(stream), 3):
                client.send(stream[:place])
                await asyncio.sleep(0.001)
                client.send(stream[place:])
                assert [(await client.answer()).status for _ in range(answers)] == [200] * answers
                asked = [(heard.line, heard.body) for heard in upstream.heard[-2:]]
                assert asked == [(method + b" /x HTTP/1.1", b"hi")] * 2

    play(main)


@pytest.mark.parametrize("method", [b"F OO", b"F(O", b"F\x00", b"\xc3\xa4", b"", b"X" * 33, b"F\t"])
def test_what_is_no_method_is_refused(method: bytes) -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            answer = await client.ask(method + b" /x HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answer.status == 400
            assert not upstream.heard
            (record,) = proxy.records.kind("refused")
            assert re.fullmatch("bad_(request|request_target)", record["error"])  # type: ignore[typeddict-item]

    play(main)


def test_a_body_is_never_taken_for_a_request_with_an_unknown_method() -> None:
    """What follows it in the same read is no request; the bytes before are no method."""

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
            while not proxy.listening.connections():
                await asyncio.sleep(0)
            client.send(b"FOO ", b"/ HTTP/1.1\r\nHost: a\r\n\r\n")
            assert [(await client.answer()).status for _ in range(2)] == [200, 400]
            assert await client.ended() == b""
            assert [heard.body for heard in upstream.heard] == [b"FOO "]

    play(main)
