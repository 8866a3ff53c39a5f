import asyncio
import time

import httpx
import pytest
from upstreams import EVENTS, ScriptedUpstream, Silent, answering, chunk, sized

from proxy import __version__
from proxy.address import Upstream
from proxy.caller import Caller, TooLong, pour
from proxy.upstream import Transport


def caller(port: int, base: str = "", **more: object) -> Caller:
    upstream = Upstream("up", "http", "127.0.0.1", port, base)
    return Caller(upstream, Transport(time.monotonic, 0.0), **more)  # type: ignore[arg-type]


def test_a_get_says_who_asks_and_nothing_else() -> None:
    async def main() -> None:
        async with answering(sized(b'{"a": 1}', b"Server: x/1")) as up:
            reply = await caller(up.port, "/base").get("/v1/models", 5)
            assert reply == (200, "x/1", {"a": 1})
            (heard,) = up.heard
            assert heard.line == b"GET /base/v1/models HTTP/1.1"
            assert heard.headers == [
                (b"Host", b"127.0.0.1:%d" % up.port),
                (b"User-Agent", f"tokometer/{__version__}".encode()),
                (b"Accept-Encoding", b"identity"),
            ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("", "/v1/models", b"/v1/models"),
        ("/openai", "/v1/models", b"/openai/v1/models"),
        ("/openai/v1", "/v1/models", b"/openai/v1/models"),
        ("/openai/v1", "/health", b"/openai/v1/health"),
    ],
)
def test_an_upstream_whose_path_ends_in_the_version_is_asked_for_it_once(
    base: str, path: str, target: bytes
) -> None:
    async def main() -> None:
        async with answering(sized(b"{}")) as up:
            await caller(up.port, base).get(path, 5)
            assert up.heard[0].target == target

    asyncio.run(main())


def test_headers_that_are_given_are_sent() -> None:
    async def main() -> None:
        async with answering(sized(b"{}")) as up:
            await caller(up.port, headers=[(b"Authorization", b"Bearer k")]).get("/", 5)
            assert up.heard[0].values(b"authorization") == [b"Bearer k"]

    asyncio.run(main())


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async def main() -> None:
        async with answering(sized(b"", b"Location: /elsewhere", status=b"302 Found")) as up:
            assert (await caller(up.port).get("/health", 5)).status == 302
            assert len(up.heard) == 1

    asyncio.run(main())


def test_what_is_no_json_has_no_body() -> None:
    async def main() -> None:
        async with answering(sized(b"Ollama is running")) as up:
            assert (await caller(up.port).get("/", 5)).body is None

    asyncio.run(main())


def test_an_upstream_that_says_nothing_is_waited_for_so_long() -> None:
    async def main() -> None:
        silent = Silent()
        async with ScriptedUpstream(silent) as up:
            with pytest.raises(TimeoutError):
                await caller(up.port).get("/health", 0.05)
            await silent.closed.wait()

    asyncio.run(main())


@pytest.mark.parametrize("head", [EVENTS, b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_without_end_is_left(head: bytes) -> None:
    async def main() -> None:
        piece = b"x" * (1 << 20)
        said = head + 6 * (chunk(piece) if b"chunked" in head else piece)
        silent = Silent(said)
        async with ScriptedUpstream(silent) as up:
            with pytest.raises(TooLong):
                await caller(up.port).get("/", 20)
            await silent.closed.wait()

    asyncio.run(main())


def test_nobody_there_is_an_error_of_the_transport() -> None:
    async def main() -> None:
        async with answering(sized(b"")) as up:
            port = up.port
        with pytest.raises(httpx.TransportError):
            await caller(port).get("/", 5)

    asyncio.run(main())


def test_a_post_gives_reads_with_their_arrival_as_they_come() -> None:
    async def main() -> None:
        async with answering(EVENTS + chunk(b"one") + chunk(b"two") + chunk(b"")) as up:
            before = time.monotonic()
            response = await caller(up.port).post("/v1/x", b'{"m": 1}', [(b"X-A", b"1")])
            reads: list[tuple[bytes, float]] = []
            await pour(response, lambda data, at: reads.append((data, at)))
            assert b"".join(data for data, _ in reads) == b"onetwo"
            assert all(before <= at <= time.monotonic() for _, at in reads)
            (heard,) = up.heard
            assert (heard.line, heard.body) == (b"POST /v1/x HTTP/1.1", b'{"m": 1}')
            assert heard.values(b"x-a") == [b"1"]
            assert heard.values(b"content-type") == [b"application/json"]

    asyncio.run(main())
