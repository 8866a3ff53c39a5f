"""Requests and answers go through as they are: lines, headers, bodies, framing."""

import orjson
import pytest
from clients import get, post
from proxy_rig import play, proxying
from upstreams import EVENTS, ScriptedUpstream, Visit, answering, chunk, sized

from proxy.address import Upstream
from proxy.relay import Rules

OK = sized(b"{}")


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/?",
        b"/v1/models?",
        b"/a%2Fb/%2e%2E/%zz?q=%2F&q=+&q",
        b"//double//slashes//",
        b"/a/../../b/./c/",
        b"/a;b=c,d/$&'()*+@!~:",
        b'/"quotes"<>[]{}|\\^`',
        b"/v1/models?a?b??",
        b"/with#fragment?x=1#y",
    ],
)
def test_target_goes_on_as_it_came(target: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(get(target))).status == 200
            assert upstream.heard[0].line == b"GET " + target + b" HTTP/1.1"

    play(main)


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"http://somewhere.test/a/b?c", b"/a/b?c"),
        (b"HTTPS://somewhere.test:8443/a//b", b"/a//b"),
        (b"http://somewhere.test", b"/"),
        (b"http://somewhere.test?q=/x", b"/?q=/x"),
    ],
)
def test_absolute_target_loses_its_origin(target: bytes, sent: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(get(target))).status == 200
            assert upstream.heard[0].target == sent

    play(main)


@pytest.mark.parametrize("request_", [b"CONNECT a.test:443", b"OPTIONS *", b"GET ftp://a.test/"])
def test_target_that_is_no_path_is_the_clients_mistake(request_: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(request_ + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answer.status == 400
            assert orjson.loads(answer.body)["error"]["code"] == "bad_request_target"
            assert not upstream.heard

    play(main)


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


def test_upload_in_pieces_keeps_its_framing() -> None:
    pieces = [b"\x00" * 10, b"\xff" * 1000, b"x" * 70_000]
    head = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: audio/wav\r\n"

    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(head, b"Transfer-Encoding: chunked\r\n\r\n")
            await proxy.records.begun()
            for piece in [*pieces, b""]:
                client.send(chunk(piece))
            assert (await client.answer()).status == 200
            client.send(head, b"Content-Length: 71010\r\n\r\n")
            await proxy.records.begun(2)
            client.send(*pieces)
            assert (await client.answer()).status == 200
            chunked, sized_ = upstream.heard
            assert chunked.values(b"transfer-encoding") == [b"chunked"]
            assert sized_.values(b"content-length") == [b"71010"]
            assert chunked.body == sized_.body == b"".join(pieces)

    play(main)


def test_trailers_of_a_request_do_not_become_headers() -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.send(head, b"2\r\nhi\r\n0\r\nAuthorization: stolen\r\nX-T: 1\r\n\r\n")
            assert (await client.answer()).status == 200
            assert upstream.heard[0].body == b"hi"
            assert not upstream.heard[0].values(b"authorization") + upstream.heard[0].trailers

    play(main)


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_body_of_a_request_that_offers_h2c_is_not_lost(method: bytes) -> None:
    """As Java's HttpClient sends every first request."""
    body = orjson.dumps({"model": "m", "messages": []})
    fields = (
        b"Host: a",
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAEAAEAA",
        b"Content-Length: %d" % len(body),
    )
    head = method + b" /v1/chat/completions HTTP/1.1\r\n" + b"\r\n".join(fields) + b"\r\n\r\n"

    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert (await client.ask(head, body)).status == 200
            client.send(head, body[:7])
            await proxy.records.ends(1)
            client.send(body[7:])
            assert (await client.answer()).status == 200
            assert [heard.body for heard in upstream.heard] == [body, body]
            assert not upstream.heard[0].values(b"upgrade")
            assert (await client.ask(get(b"/next"))).status == 200

    play(main)


def test_first_bytes_of_an_upload_arrive_before_the_last_are_sent() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            assert await anext(visit.chunks()) == b"first"
            client.send(chunk(b"last"), chunk(b""))
            assert [data async for data in visit.chunks()] == [b"last"]
            visit.say(OK)
            await visit.gone()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for kind in (b"multipart/form-data; boundary=x", b"application/octet-stream"):
                head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: %b\r\n"
                client.send(head % kind, b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"first"))
                assert (await client.answer()).status == 200

    play(main)


def test_json_larger_than_the_limit_streams_through() -> None:
    body = orjson.dumps({"model": "m", "messages": [], "stream": True, "pad": "x" * 3000})

    async def main() -> None:
        async def script(visit: Visit) -> None:
            head = await visit.head()
            first = await visit.reader.readexactly(1500)
            client.send(body[2000:])
            rest = await visit.reader.readexactly(len(body) - 1500)
            assert first + rest == body
            assert head.values(b"content-length") == [b"%d" % len(body)]
            visit.say(OK)
            await visit.gone()

        rules = Rules(max_inspect_bytes=1000)
        async with ScriptedUpstream(script) as up, proxying(up.port, rules=rules) as proxy:
            client = await proxy.client()
            whole = post(b"/v1/chat/completions", body)
            client.send(whole[: len(whole) - len(body) + 2000])
            assert (await client.answer()).status == 200

    play(main)


def test_chunked_json_that_grows_past_the_limit_streams_through() -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            chunks = visit.chunks()
            got = b""
            while len(got) < 1200:
                got += await anext(chunks)
            client.send(chunk(b"the end"), chunk(b""))
            got += b"".join([data async for data in chunks])
            assert got == b"x" * 1200 + b"the end"
            visit.say(OK)
            await visit.gone()

        rules = Rules(max_inspect_bytes=1000)
        async with ScriptedUpstream(script) as up, proxying(up.port, rules=rules) as proxy:
            client = await proxy.client()
            client.send(head, chunk(b"x" * 600), chunk(b"x" * 600))
            assert (await client.answer()).status == 200

    play(main)


def test_longest_prefix_wins_and_is_stripped_and_the_base_is_put_before() -> None:
    async def main() -> None:
        async with answering(sized(b"a")) as a, answering(sized(b"b")) as b:
            ways = [
                Upstream("a", "http", "127.0.0.1", a.port, "/base", "/fast"),
                Upstream("b", "http", "127.0.0.1", b.port, "", "/fast/er"),
            ]
            async with proxying(*ways) as proxy:
                client = await proxy.client()
                for target in (b"/fast/x?y", b"/fast", b"/fast?q", b"/fast/erx", b"/fast//x"):
                    assert (await client.ask(get(target))).body == b"a"
                for target in (b"/fast/er/x", b"/fast/er"):
                    assert (await client.ask(get(target))).body == b"b"
                nowhere = await client.ask(get(b"/faster/x"))
                assert nowhere.status == 404
                assert orjson.loads(nowhere.body)["error"]["code"] == "no_upstream"
            assert [heard.target for heard in a.heard] == [
                b"/base/x?y",
                b"/base/",
                b"/base/?q",
                b"/base/erx",
                b"/base//x",
            ]
            assert [heard.target for heard in b.heard] == [b"/x", b"/"]

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
