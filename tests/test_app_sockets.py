"""Whole workers behind TLS and Unix sockets, and before upstreams behind them."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from channel_rig import Ear, until
from clients import RawClient, get, post
from proxy_rig import play
from test_app import EVENT, STREAM, at
from test_tls import Files, files, reading, server_of
from upstreams import EVENTS, ScriptedUpstream, Visit, answering, chunk, sized

from proxy.address import Upstream
from proxy.app import Worker
from proxy.config import Config
from proxy.sockets import listen

DONE = chunk(b"data: [DONE]\n\n") + chunk(b"")


class Place:
    """Where a worker listens, and how clients get there."""

    def __init__(self, listener: socket.socket, worker: Worker) -> None:
        self.listener = listener
        self.worker = worker

    async def client(self, tls: ssl.SSLContext | None = None) -> RawClient:
        if self.listener.family == socket.AF_UNIX:
            return RawClient(*await asyncio.open_unix_connection(self.path))
        port = self.listener.getsockname()[1]
        return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))

    path = ""


@asynccontextmanager
async def working(
    path: Path, *upstreams: Upstream, host: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[Place]:
    """A worker that listens at `host`."""
    ear = await Ear().at(path / "channel")
    config = Config(upstreams=upstreams, drain_seconds=0.1, **settings)
    worker = Worker(reading(**config.papers), config, 0, str(path / "channel"))
    place = Place(listen(host, 0), worker)
    place.path = host.removeprefix("unix:")
    address = place.listener.getsockname()
    assert address
    task = asyncio.ensure_future(place.worker.run(place.listener))
    await until(lambda: ear.records)
    try:
        yield place
    finally:
        place.worker.stop()
        await task
        ear.receiver.close()


def trusting(own: Files, *shown: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=own.ca)
    if shown:
        context.load_cert_chain(*shown)
    return context


def test_bytes_go_through_tls_one_read_one_write(tmp_path: Path) -> None:
    own = files(tmp_path)

    async def main() -> None:
        go_on = asyncio.Event()

        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT))
            await go_on.wait()
            visit.say(chunk(EVENT), DONE)
            await visit.gone()

        async with (
            ScriptedUpstream(script, server_of(own).context) as upstream,
            working(
                tmp_path,
                at(upstream.port, "https"),
                tls_cert=own.cert,
                tls_key=own.key,
                upstream_ca=own.ca,
            ) as place,
        ):
            client = await place.client(trusting(own))
            client.send(STREAM)
            assert (await client.head()).status == 200
            assert await client.chunk() == EVENT  # before the upstream says the rest
            go_on.set()
            assert await client.chunk() == EVENT + b"data: [DONE]\n\n"
            assert await client.chunk() == b""
            await client.close()

    play(main)


def test_large_bodies_go_through_tls_both_ways(tmp_path: Path) -> None:
    own = files(tmp_path)
    body = os.urandom(3 << 20)

    async def main() -> None:
        async with (
            answering(sized(body)) as upstream,
            working(tmp_path, at(upstream.port), tls_cert=own.cert, tls_key=own.key) as place,
        ):
            client = await place.client(trusting(own))
            for _ in range(2):
                answer = await client.ask(post(b"/x", body))
                assert answer.body == body
            assert [heard.body == body for heard in upstream.heard] == [True, True]
            await client.close()

    play(main)


def test_only_clients_with_the_right_certificate_come_in(tmp_path: Path) -> None:
    own, others = files(tmp_path), files(tmp_path, name="b")

    async def main() -> None:
        async with (
            answering(sized(b"x")) as upstream,
            working(
                tmp_path, at(upstream.port), tls_cert=own.cert, tls_key=own.key, client_ca=own.ca
            ) as place,
        ):
            for shown in ((), (others.cert, others.key)):
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    client = await place.client(trusting(own, *shown))
                    await client.ask(get(b"/"))
            client = await place.client(trusting(own, own.cert, own.key))
            assert (await client.ask(get(b"/"))).body == b"x"
            await client.close()
            assert len(upstream.heard) == 1

    play(main)


def test_upstreams_are_shown_the_certificate_that_they_want(tmp_path: Path) -> None:
    own = files(tmp_path)

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(sized(b"x"))
            await visit.gone()

        strict = server_of(own, own.ca).context
        async with ScriptedUpstream(script, strict) as upstream:
            way = at(upstream.port, "https")
            async with working(tmp_path, way, upstream_ca=own.ca) as place:
                client = await place.client()
                assert (await client.ask(get(b"/"))).status == 502
                await client.close()
            mutual = {"upstream_cert": own.cert, "upstream_key": own.key}
            async with working(tmp_path, way, upstream_ca=own.ca, **mutual) as place:
                client = await place.client()
                assert (await client.ask(get(b"/"))).body == b"x"
                await client.close()

    play(main)


def test_a_hangup_has_certificates_read_anew_while_streams_run(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = files(tmp_path, authority)

    async def main() -> None:
        async with (
            answering(sized(b"x")) as upstream,
            working(tmp_path, at(upstream.port), tls_cert=own.cert, tls_key=own.key) as place,
        ):
            before = await place.client(trusting(own))
            files(tmp_path, authority)
            os.kill(os.getpid(), signal.SIGHUP)
            serials = {serial(before)}
            while len(serials) == 1:
                after = await place.client(trusting(own))
                serials.add(serial(after))
                await after.close()
            assert (await before.ask(get(b"/"))).body == b"x"
            await before.close()

    play(main)


def serial(client: RawClient) -> str:
    return str(client.writer.get_extra_info("peercert")["serialNumber"])


def test_plain_http_on_a_tls_port_is_cut_and_harms_nobody(tmp_path: Path) -> None:
    own = files(tmp_path)

    async def main() -> None:
        async with (
            answering(sized(b"x")) as upstream,
            working(tmp_path, at(upstream.port), tls_cert=own.cert, tls_key=own.key) as place,
        ):
            plain = await place.client()
            plain.send(get(b"/"))
            assert not (await plain.ended()).startswith(b"HTTP")
            await plain.close()
            client = await place.client(trusting(own))
            assert (await client.ask(get(b"/"))).body == b"x"
            await client.close()

    play(main)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_broke_off_is_no_whole_one_behind_tls(
    tmp_path: Path, version: bytes
) -> None:
    own = files(tmp_path)

    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(EVENTS, chunk(EVENT))
            await visit.writer.drain()
            visit.reset()

        async with (
            ScriptedUpstream(script) as upstream,
            working(tmp_path, at(upstream.port), tls_cert=own.cert, tls_key=own.key) as place,
        ):
            client = await place.client(trusting(own))
            answer = await client.ask(get(b"/").replace(b"1.1", version))
            assert not answer.clean or answer.status == 502
            await client.close()

    play(main)


def test_a_refusal_reaches_the_client_behind_tls(tmp_path: Path) -> None:
    own = files(tmp_path)

    async def main() -> None:
        async with working(tmp_path, at(1), tls_cert=own.cert, tls_key=own.key) as place:
            client = await place.client(trusting(own))
            assert (await client.ask(b"no HTTP\r\n\r\n")).status == 400
            await client.close()

    play(main)


def test_unix_sockets_on_both_sides(tmp_path: Path) -> None:
    async def main() -> None:
        heard: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                heard.append(line)
                if line == b"\r\n":
                    writer.write(EVENTS + chunk(EVENT) + DONE)
            writer.close()

        path = str(tmp_path / "engine")
        server = await asyncio.start_unix_server(serve, path)
        way = Upstream.parse("default", f"unix:{path}")
        async with working(tmp_path, way, host=f"unix:{tmp_path / 'proxy'}") as place:
            client = await place.client()
            for _ in range(2):
                answer = await client.ask(get(b"/v1/models"))
                assert (answer.status, answer.clean) == (200, True)
                assert answer.body == EVENT + b"data: [DONE]\n\n"
            assert b"Host: localhost\r\n" in heard
            await client.close()
            server.close()

    play(main)


def test_a_unix_socket_that_nobody_serves_is_an_unreachable_upstream(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "engine"
        async with working(tmp_path, Upstream.parse("default", f"unix:{path}")) as place:
            client = await place.client()
            answer = await client.ask(get(b"/"))
            assert answer.status == 502
            assert b"cannot be reached: No such file or directory" in answer.body
            assert str(path).encode() not in answer.body
            await client.close()

    play(main)
