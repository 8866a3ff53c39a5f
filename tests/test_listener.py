"""What clients send, over real sockets, with small applications behind the listener."""

import asyncio

import orjson
import pytest
from clients import RawClient, get
from proxy_rig import play, serving

from proxy.client import Client

CHUNKED = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = [(b"Content-Length", b"2")]


async def echo(client: Client) -> None:
    """Says what it was asked, with the whole body."""
    body = b"".join([data async for data in client.stream()])
    told = client.method.encode() + b" " + client.target + b" " + body
    client.start(200, b"", [(b"Content-Length", b"%d" % len(told))])
    client.write(told)
    client.end()


class Waiting:
    """Begins its answer when asked, ends it when told to."""

    def __init__(self, begun: bool = True) -> None:
        self._begun = begun
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.clients: list[Client] = []

    async def __call__(self, client: Client) -> None:
        self.clients.append(client)
        if self._begun:
            client.start(200, b"", OK)
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if not self._begun:
            client.start(200, b"", OK)
        client.write(b"ok")
        client.end()


async def refusal(client: RawClient) -> tuple[int, str]:
    """Status and code of the answer to bytes that are no HTTP; nothing comes behind it."""
    answer = await client.answer()
    assert answer.values(b"connection") == [b"close"]
    assert await client.ended() == b""
    return answer.status, orjson.loads(answer.body)["error"]["code"]


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        "GET /\u00e4 HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: \x00\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nA: b\r\n Content-Length: 1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_bytes_that_are_no_http_are_refused_and_never_served(data: bytes) -> None:
    async def app(client: Client) -> None:
        raise AssertionError("was called")

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            client.send(data)
            assert await refusal(client) == (400, "bad_request")
            assert not listening.state.tasks

    play(main)


def test_head_without_an_end_is_refused_and_a_large_one_is_not() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            answer = await client.ask(get(b"/", b"X-Large: " + b"x" * 60_000))
            assert answer.body == b"GET / "
            client.send(b"GET / HTTP/1.1\r\n")
            while listening.state.connections and not client.reader.at_eof():
                client.send(b"X-More: " + b"x" * 1000 + b"\r\n")
                await client.writer.drain()
                if client.reader._buffer:  # type: ignore[attr-defined]
                    break
                await asyncio.sleep(0)
            assert await refusal(client) == (431, "request_head_too_large")

    play(main)


def test_heads_are_measured_one_by_one() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            for _ in range(50):
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
                await asyncio.sleep(0.001)
                client.send(b"X-A: ", b"x" * 2000, b"\r\n\r\n")
                assert (await client.answer()).body == b"GET / "

    play(main)


def test_large_body_is_no_part_of_the_head_behind_it() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            body = b"x" * 200_000
            client.send(
                b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n",
                body,
                b"GET /2 HTT",
            )
            assert (await client.answer()).body == b"POST /1 " + body
            client.send(b"P/1.1\r\nHost: a\r\n\r\n")
            assert (await client.answer()).body == b"GET /2 "

    play(main)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: 1\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"1\r\na\r\n0\r\nBad Trailer\r\n\r\n",
    ],
)
def test_what_is_bad_behind_requests_does_not_spoil_their_answers(begun: bool, data: bytes) -> None:
    async def main() -> None:
        app = Waiting(begun)
        async with serving(app) as listening:
            client = await listening.client()
            client.send(get(b"/1"), get(b"/2"), data)
            await app.asked.wait()
            client.send(b"more garbage")
            await asyncio.sleep(0.01)
            app.go_on.set()
            assert [(await client.answer()).body for _ in range(2)] == [b"ok", b"ok"]
            assert await refusal(client) == (400, "bad_request")
            assert [one.target for one in app.clients[:2]] == [b"/1", b"/2"]

    play(main)


def test_broken_body_ends_the_request() -> None:
    async def main() -> None:
        for begun in (False, True):
            app = Waiting(begun)
            async with serving(app) as listening:
                client = await listening.client()
                client.send(CHUNKED, b"1\r\na\r\n")
                await app.asked.wait()
                client.send(b"zz\r\n")
                await app.cancelled.wait()
                assert app.clients[0].gone
                if begun:  # another status cannot be sent any more
                    answer = await client.answer()
                    assert (answer.status, answer.clean) == (200, False)
                else:
                    assert await refusal(client) == (400, "bad_request")

    play(main)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_offer_of_another_protocol_is_declined_and_http_goes_on(protocol: bytes) -> None:
    upgrade = (b"Connection: Upgrade", b"Upgrade: " + protocol)

    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            assert (await client.ask(get(b"/1", *upgrade), get(b"/2", *upgrade))).body == b"GET /1 "
            assert (await client.answer()).body == b"GET /2 "
            assert (await client.ask(get(b"/3"))).body == b"GET /3 "
            head = b"POST /4 HTTP/1.1\r\nHost: a\r\n" + b"\r\n".join(upgrade)
            client.send(head, b"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe")
            await asyncio.sleep(0.01)
            client.send(b"\r\n3\r\nllo\r\n0\r\n\r\n", get(b"/5"))
            assert (await client.answer()).body == b"POST /4 hello"
            assert (await client.answer()).body == b"GET /5 "

    play(main)


@pytest.mark.parametrize("method", [b"CONNECT", b"connect", b"Connect", b"cONNECT"])
@pytest.mark.parametrize("target", [b"a:1", b"/a", b"http://a/b"])
def test_connect_is_refused_and_what_comes_behind_it_is_not_read(
    target: bytes, method: bytes
) -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            client.send(b"%b %b HTTP/1.1\r\nHost: a\r\n\r\n" % (method, target), get(b"/hidden"))
            answer = await client.answer()
            assert (answer.status, answer.values(b"connection")) == (400, [b"close"])
            assert await client.ended() == b""

    play(main)


def test_old_client_is_closed_after_its_answer() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            answer = await client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert answer.body == b"GET / "
            assert await client.ended() == b""

    play(main)


def test_empty_lines_between_requests_do_not_matter() -> None:
    async def main() -> None:
        async with serving(echo) as listening:
            client = await listening.client()
            for _ in range(3):
                assert (await client.ask(get(b"/"), b"\r\n")).body == b"GET / "

    play(main)


def test_headers_and_target_are_as_the_client_wrote_them() -> None:
    seen: list[Client] = []

    async def app(client: Client) -> None:
        seen.append(client)
        await echo(client)

    async def main() -> None:
        async with serving(app) as listening:
            client = await listening.client()
            head = b"GET /a%2Fb/../?x HTTP/1.1\r\nhOST: a\r\nX-A:  1\r\nx-a:\r\n\r\n"
            for byte in head:
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            await client.answer()
            assert seen[0].target == b"/a%2Fb/../?x"
            assert seen[0].headers == [(b"hOST", b"a"), (b"X-A", b"1"), (b"x-a", b"")]

    play(main)
