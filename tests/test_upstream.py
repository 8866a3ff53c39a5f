"""The pool of connections behind httpx's transport interface, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from proxy_rig import Clock, play
from upstreams import ScriptedUpstream, Visit, answering, chunk, sized

from proxy.answer import Answer
from proxy.upstream import Transport


def request(port: int, method: str = "GET", scheme: str = "http", **more: object) -> httpx.Request:
    extensions = {"target": b"/t?q", **more}
    url = f"{scheme}://127.0.0.1:{port}/"
    stream = httpx.ByteStream(b"")
    return httpx.Request(method, url, headers={"Host": "h"}, stream=stream, extensions=extensions)


async def fetch(transport: Transport, request: httpx.Request) -> bytes:
    response = await transport.handle_async_request(request)
    return await response.aread()


def test_transport_is_one_of_httpx_and_can_stand_under_its_client() -> None:
    async def main() -> None:
        async with (
            answering(sized(b"hello", b"X-A: 1", b"X-A: 2")) as upstream,
            httpx.AsyncClient(transport=Transport(Clock(), 4.0)) as client,
        ):
            response = await client.get(f"http://127.0.0.1:{upstream.port}/a?b=%2F")
            assert (response.status_code, response.text) == (200, "hello")
            assert response.headers.get_list("x-a") == ["1", "2"]
            assert upstream.heard[0].target == b"/a?b=%2F"
            response = await client.post(f"http://127.0.0.1:{upstream.port}/", json={})
            assert upstream.heard[1].body == b"{}"
            assert len(upstream.visits) == 1

    play(main)


def test_answer_tells_its_reason_and_when_its_head_came() -> None:
    async def main() -> None:
        clock, transport = Clock(), Transport(Clock(), 4.0)
        answer = sized(b"hello", status=b"299 Quite OK")
        async with answering(answer) as upstream:
            response = await transport.handle_async_request(request(upstream.port))
            assert response.extensions["reason_phrase"] == b"Quite OK"
            assert response.extensions["arrived"] == clock.now
            assert isinstance(response.stream, Answer)
            assert upstream.heard[0].line == b"GET /t?q HTTP/1.1"
            await response.aclose()
            await transport.aclose()

    play(main)


def test_idle_connection_is_kept_for_so_long_and_no_longer() -> None:
    async def main() -> None:
        clock = Clock()
        transport = Transport(clock, 4.0)
        async with answering(sized(b"x")) as upstream:
            for seconds, visits in ((0.0, 1), (3.9, 1), (3.9, 1), (4.0, 2), (100.0, 3)):
                clock.now += seconds
                assert await fetch(transport, request(upstream.port)) == b"x"
                assert len(upstream.visits) == visits
            await transport.aclose()

    play(main)


def test_connection_that_rested_least_is_taken_first() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                await visit.hear()
                visit.say(sized(b"%d" % visit.number))

        clock = Clock()
        transport = Transport(clock, 4.0)
        async with ScriptedUpstream(script) as upstream:
            both = [await transport.handle_async_request(request(upstream.port)) for _ in range(2)]
            for response in reversed(both):
                await response.aread()
                await response.aclose()
                clock.now += 1
            assert [await fetch(transport, request(upstream.port)) for _ in range(3)] == [b"1"] * 3
            clock.now += 2.5  # the other one has rested too long by now
            assert await fetch(transport, request(upstream.port)) == b"1"
            await transport.aclose()

    play(main)


def test_idle_connection_is_closed_when_its_time_is_over() -> None:
    async def main() -> None:
        clock = Clock()
        transport = Transport(clock, 0.02)
        async with answering(sized(b"x")) as upstream:
            await fetch(transport, request(upstream.port))
            (visit,) = upstream.visits
            gone = asyncio.ensure_future(visit.writer.wait_closed())
            await asyncio.sleep(0.05)  # the timer looks at the clock
            assert not gone.done()
            clock.now += 0.02
            await gone
            await transport.aclose()

    play(main)


def test_connection_that_the_server_dropped_is_not_used() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(sized(b"%d" % visit.number))

        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            assert await fetch(transport, request(upstream.port)) == b"1"
            await upstream.visits[0].writer.wait_closed()
            await asyncio.sleep(0.01)
            assert await fetch(transport, request(upstream.port)) == b"2"
            await transport.aclose()

    play(main)


@pytest.mark.parametrize("how", [Visit.close, Visit.reset])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_on_a_stale_connection_is_sent_once_more(
    method: str, how: Callable[[Visit], None]
) -> None:
    """The server closes just when the request comes."""

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(sized(b"%d" % visit.number))
            if visit.number == 1:
                await visit.hear()
                how(visit)
            await visit.gone()

        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            assert await fetch(transport, request(upstream.port)) == b"1"
            assert await fetch(transport, request(upstream.port, method)) == b"2"
            await transport.aclose()

    play(main)


def test_request_is_sent_no_third_time() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            if visit.number == 1:
                visit.say(sized(b"1"))
                await visit.hear()

        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            await fetch(transport, request(upstream.port))
            with pytest.raises(httpx.ReadError):
                await fetch(transport, request(upstream.port))
            assert len(upstream.visits) == 2

    play(main)


def test_request_is_not_sent_again_once_a_byte_of_the_answer_has_come() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(sized(b"1"))
            await visit.hear()
            visit.say(b"H")

        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            await fetch(transport, request(upstream.port))
            with pytest.raises(httpx.ReadError):
                await fetch(transport, request(upstream.port))
            assert len(upstream.visits) == 1

    play(main)


class Pieces(httpx.AsyncByteStream):
    """A body that can be read only once."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def test_body_that_can_be_read_once_takes_a_fresh_connection_that_is_kept_afterwards() -> None:
    async def main() -> None:
        transport = Transport(Clock(), 4.0)
        async with answering(sized(b"x")) as upstream:
            await fetch(transport, request(upstream.port))
            for framing in ({"Transfer-Encoding": "chunked"}, {"Content-Length": "3"}):
                url = f"http://127.0.0.1:{upstream.port}/"
                body = Pieces(b"a", b"", b"bc")
                sent = httpx.Request("POST", url, headers=framing, stream=body)
                assert await fetch(transport, sent) == b"x"
            assert [heard.body for heard in upstream.heard] == [b"", b"abc", b"abc"]
            assert len(upstream.visits) == 3
            await fetch(transport, request(upstream.port))
            assert len(upstream.visits) == 3
            await transport.aclose()

    play(main)


def test_answer_that_is_not_read_to_its_end_is_not_followed_by_another() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"more"))
            closed.append(await visit.gone())

        closed: list[bytes] = []
        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            for _ in range(2):
                response = await transport.handle_async_request(request(upstream.port))
                await response.aclose()
            while len(closed) < 2:
                await asyncio.sleep(0)
            assert len(upstream.visits) == 2

    play(main)


def test_request_that_is_given_up_closes_its_connection() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            asked.set()
            await visit.gone()
            gone.set()

        asked, gone = asyncio.Event(), asyncio.Event()
        transport = Transport(Clock(), 4.0)
        async with ScriptedUpstream(script) as upstream:
            fetching = asyncio.ensure_future(fetch(transport, request(upstream.port)))
            await asked.wait()
            fetching.cancel()
            await gone.wait()

    play(main)
