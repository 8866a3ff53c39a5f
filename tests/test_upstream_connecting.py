"""New connections to upstreams: how long they take, when they fail, whom TLS trusts."""

import asyncio
import socket
import ssl
import zlib
from pathlib import Path

import httpx
import pytest
import trustme
from proxy_rig import Clock, play
from test_upstream import fetch, request
from upstreams import ScriptedUpstream, Visit, answering, sized

from proxy.upstream import Transport


def test_times_of_new_connections_are_told_and_so_are_failures() -> None:
    async def main() -> None:
        told: list[float | None] = []
        transport = Transport(Clock(), 4.0, connected=told.append)
        async with answering(sized(b"x")) as upstream:
            await fetch(transport, request(upstream.port))
            await fetch(transport, request(upstream.port))
        with pytest.raises(httpx.ConnectError):
            await fetch(transport, request(upstream.port))
        with pytest.raises(httpx.ConnectError):
            await fetch(transport, httpx.Request("GET", "http://no-such-host.invalid/"))
        assert told == [0.0, None, None]

    play(main)


@pytest.mark.parametrize("unix", [False, True])
def test_what_a_new_connection_cannot_take_at_once_follows(unix: bool, tmp_path: Path) -> None:
    body = bytes(range(256)) * (32 << 10)
    visits = []

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(writer)
        await asyncio.sleep(0.02)
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            heard = await reader.readexactly(len(body))
            writer.write(sized(b"%d" % zlib.crc32(heard)))
        writer.close()

    async def main() -> None:
        path = str(tmp_path / "s") if unix else ""
        if unix:
            server = await asyncio.start_unix_server(visit, path)
            port = 1
        else:
            server = await asyncio.start_server(visit, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
        transport = Transport(Clock(), 4.0, unix=path)
        for _ in range(2):
            asked = httpx.Request(
                "POST",
                f"http://127.0.0.1:{port}/",
                headers=[(b"Content-Length", b"%d" % len(body))],
                stream=httpx.ByteStream(body),
            )
            assert await fetch(transport, asked) == b"%d" % zlib.crc32(body)
        assert len(visits) == 1
        await transport.aclose()
        server.close()

    play(main)


def test_connection_that_does_not_come_in_time_is_a_timeout() -> None:
    async def main() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            waiting = [socket.socket() for _ in range(4)]  # the queue is full then
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(full.getsockname())
            told: list[float | None] = []
            transport = Transport(Clock(), 4.0, connected=told.append)
            limits = {"connect": 0.05}
            with pytest.raises(httpx.ConnectTimeout, match=r"within 0\.05 s"):
                await fetch(transport, request(full.getsockname()[1], timeout=limits))
            assert told == [None]
            for sock in waiting:
                sock.close()

    play(main)


def test_tls_upstream_is_believed_only_with_its_own_authority() -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                await visit.hear()
                visit.say(sized(b"x" * 300_000))

        async with ScriptedUpstream(script, server) as upstream:
            strict = Transport(Clock(), 4.0)
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await fetch(strict, request(upstream.port, scheme="https"))
            trusting = Transport(Clock(), 4.0, client)
            for _ in range(2):
                got = await fetch(trusting, request(upstream.port, scheme="https"))
                assert got == b"x" * 300_000
            await trusting.aclose()

    play(main)


def test_tls_is_not_spoken_to_a_server_that_speaks_none() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await visit.gone()

        async with ScriptedUpstream(script) as upstream:
            with pytest.raises(httpx.ConnectError):
                await fetch(Transport(Clock(), 4.0), request(upstream.port, scheme="https"))

    play(main)
