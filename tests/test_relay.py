"""Requests and answers go through as they are: lines, headers, bodies, framing."""

import pytest
from clients import get
from proxy_rig import play, proxying
from upstreams import EVENTS, answering, chunk, sized

from proxy.relay import Rules

OK = sized(b"{}")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"])
@pytest.mark.parametrize("body", [b"", b"\x00\xff body"])
def test_every_method_goes_through_with_its_body(method: str, body: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            head = b"%b /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
            answer = await (await proxy.client()).ask(head % (method.encode(), len(body)), body)
            assert (answer.status, answer.body) == (200, b"{}")
            assert upstream.heard[0].line == method.encode() + b" /x HTTP/1.1"
            assert upstream.heard[0].body == body

    play(main)


def test_head_request_gets_the_head_alone() -> None:
    async def main() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nX-A: 1\r\n\r\n"
        async with answering(head) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):
                answer = await client.ask(b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n")
                assert answer.headers == [(b"Content-Length", b"5000"), (b"X-A", b"1")]
            ends = await proxy.records.ends(2)
            assert [end["outcome"] for end in ends] == ["completed"] * 2

    play(main)


def test_request_headers_keep_order_case_and_repetitions() -> None:
    sent = [
        (b"aCCept", b"text/event-stream"),
        (b"X-Many", b"1"),
        (b"host", b"proxy.test"),
        (b"x-many", b"2"),
        (b"Authorization", b"Bearer  two spaces"),
        (b"X-Empty", b""),
        (b"X-Bytes", b"\xc3\xa4\xff"),
        (b"Accept-Encoding", b"gzip, br"),
        (b"Cookie", b"a=1; b=2"),
        (b"X-Many", b"1"),
    ]

    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            fields = b"".join(b"%b: %b\r\n" % pair for pair in sent)
            await (await proxy.client()).ask(b"GET / HTTP/1.1\r\n" + fields + b"\r\n")
            authority = b"127.0.0.1:%d" % upstream.port
            host = sent.index((b"host", b"proxy.test"))
            assert upstream.heard[0].headers == [
                *sent[:host],
                (b"host", authority),
                *sent[host + 1 :],
            ]

    play(main)


def test_hop_by_hop_headers_and_those_that_connection_names_stay_here() -> None:
    hops = [
        b"Connection: keep-alive, X-Mine",
        b"X-Mine: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Authorization: Basic eDp5",
        b"TE: trailers",
        b"Proxy-Connection: keep-alive",
    ]

    async def main() -> None:
        answer = sized(b"{}", b"Connection: x-theirs", b"X-Theirs: 1", b"Keep-Alive: timeout=9")
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            got = await (await proxy.client()).ask(get(b"/", *hops, b"X-End: 2"))
            assert [name for name, _ in upstream.heard[0].headers] == [b"Host", b"X-End"]
            assert got.headers == [(b"Content-Length", b"2")]

    play(main)


def test_preserve_host_keeps_the_clients() -> None:
    async def main() -> None:
        rules = Rules(preserve_host=True)
        async with answering(OK) as upstream, proxying(upstream.port, rules=rules) as proxy:
            await (await proxy.client()).ask(get(b"/"))
            assert upstream.heard[0].values(b"host") == [b"proxy.test"]

    play(main)


def test_request_without_host_gets_the_upstreams() -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            await (await proxy.client()).ask(b"GET / HTTP/1.0\r\n\r\n")
            assert upstream.heard[0].values(b"host") == [b"127.0.0.1:%d" % upstream.port]

    play(main)


def test_event_stream_gets_the_one_header_that_is_added() -> None:
    async def main() -> None:
        there = EVENTS.replace(b"Transfer", b"x-accel-buffering: yes\r\nTransfer")
        answers = [EVENTS + chunk(b""), there + chunk(b""), sized(b"")]
        async with answering(*answers) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            found = [(await client.ask(get(b"/"))).values(b"x-accel-buffering") for _ in answers]
            assert found == [[b"no"], [b"yes"], []]

    play(main)


def test_host_of_an_absolute_target_goes_before_the_header() -> None:
    async def main() -> None:
        rules = Rules(preserve_host=True)
        async with answering(OK) as upstream, proxying(upstream.port, rules=rules) as proxy:
            client = await proxy.client()
            for target in (b"http://other.test:81/x", b"/x"):
                await client.ask(b"GET " + target + b" HTTP/1.1\r\nHost: proxy.test\r\n\r\n")
            hosts = [heard.values(b"host") for heard in upstream.heard]
            assert hosts == [[b"other.test:81"], [b"proxy.test"]]

    play(main)
