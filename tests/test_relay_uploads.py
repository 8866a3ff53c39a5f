"""Request bodies go through whole, without being held where nobody reads them."""

import orjson
import pytest
from clients import get, post
from proxy_rig import play, proxying
from upstreams import ScriptedUpstream, Visit, answering, chunk, sized

from proxy.relay import Rules

OK = sized(b"{}")


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
