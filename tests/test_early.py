"""A new connection is used before the event loop has its socket, and whatever happens meanwhile,
nobody else's descriptor is closed.
"""

import asyncio
import gc
import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
from proxy_rig import Clock, play
from test_upstream import fetch, request
from upstreams import ScriptedUpstream, Visit

from proxy.answer import Answer
from proxy.connection import Connection
from proxy.early import Early
from proxy.upstream import Transport

HEAD = b"POST / HTTP/1.1\r\n\r\n"
BODIES = {"small": b"x", "two writes": b"x" * 100_000, "more than fits": b"x" * (8 << 20)}


@contextmanager
def pair(unix: bool, path: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connected socket that does not block, and the other end."""
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as server:
        server.bind(str(path) if unix else ("127.0.0.1", 0))
        server.listen()
        sock = socket.socket(server.family)
        sock.setblocking(False)
        sock.connect_ex(server.getsockname())
        other, _ = server.accept()
        with sock, other:
            yield sock, other


class Kept(asyncio.Protocol):
    """What the loop hands over, once it has the socket."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)


class Others:
    """Descriptors that are opened while a connection comes and goes, and have to stay open."""

    def __init__(self) -> None:
        self._open: list[int] = []

    async def come(self) -> None:
        for _ in range(5):
            self._open += [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
            await asyncio.sleep(0)

    def check(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)  # fails for one that is closed


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("unix", [False, True])
def test_what_does_not_go_at_once_is_sent_later_and_in_order(unix: bool, tmp_path: Path) -> None:
    pieces = [HEAD, bytes(range(256)) * 40_000, b"the end"]

    async def main() -> None:
        with pair(unix, tmp_path / "s") as (sock, other):
            other.setblocking(False)
            early, protocol = Early(sock), Kept()
            assert [early.send(piece) for piece in pieces] == [None] * 3
            assert other.recv(len(HEAD)) == HEAD  # before the loop has it
            unsent = await early.attach(protocol)
            assert unsent.endswith(pieces[1][-9:] + pieces[2])
            protocol.transport.write(unsent)
            reader, writer = await asyncio.open_connection(sock=other.dup())
            rest = await reader.readexactly(len(b"".join(pieces)) - len(HEAD))
            assert HEAD + rest == b"".join(pieces)
            protocol.transport.close()
            writer.close()

    play(main)


@pytest.mark.parametrize("unix", [False, True])
def test_socket_is_closed_by_whoever_has_it(unix: bool, tmp_path: Path) -> None:
    async def main() -> None:
        with pair(unix, tmp_path / "s") as (sock, other):
            assert Early(sock).close()
            assert other.recv(1) == b""
        with pair(unix, tmp_path / "t") as (sock, other):
            early = Early(sock)
            attaching = asyncio.ensure_future(early.attach(protocol := Kept()))
            await asyncio.sleep(0)
            assert not early.close()
            await attaching
            protocol.transport.write(b"still there")
            other.settimeout(5)
            assert other.recv(99) == b"still there"
            protocol.transport.close()

    play(main)


def test_what_went_wrong_is_told_and_not_raised(tmp_path: Path) -> None:
    with pair(True, tmp_path / "s") as (sock, other):
        other.close()
        assert isinstance(Early(sock).send(HEAD), BrokenPipeError)


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("what", ["reset", "closed", "cancelled", "cancelled later", "silent"])
def test_what_ends_at_once_closes_nothing_of_others(
    unix: bool, body: str, what: str, tmp_path: Path
) -> None:
    async def main() -> None:
        others = Others()
        with pair(unix, tmp_path / "s") as (sock, other):
            connection = Connection(time.monotonic)
            connection.begin(sock)
            answer = Answer(connection, connection.cut)
            idle = 0.001 if what == "silent" else None
            asking = connection.ask(HEAD, BODIES[body], answer, False, idle)
            task = asyncio.ensure_future(asking)
            await asyncio.sleep(0)
            if what == "reset":
                reset(other)
            elif what == "closed":
                other.close()
            elif what == "silent":
                time.sleep(0.005)
            else:
                for _ in range(2 if "later" in what else 0):
                    await asyncio.sleep(0)
                task.cancel()
            await others.come()
            with pytest.raises((httpx.TransportError, asyncio.CancelledError)) as caught:
                await task
            if what == "reset":
                assert str(caught.value) == "reset by the upstream"
            answer.close()
            assert connection.lost or connection._transport is not None
            del connection, answer, asking, task
        await asyncio.sleep(0.01)
        gc.collect()
        others.check()

    play(main)


def test_handshake_that_is_broken_off_closes_nothing_of_others() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            visit.reset()

        async with ScriptedUpstream(script) as upstream:
            for _ in range(20):
                others = Others()
                asking = fetch(Transport(Clock(), 4.0), request(upstream.port, scheme="https"))
                task = asyncio.ensure_future(asking)
                await asyncio.sleep(0)
                await others.come()
                with pytest.raises(httpx.ConnectError):
                    await task
                del task, asking
                gc.collect()
                others.check()

    play(main)


def test_handshake_that_takes_too_long_leaves_nothing_open() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.gone()

        async with ScriptedUpstream(script) as upstream:
            before = len(os.listdir("/proc/self/fd"))
            limits = {"connect": 0.05}
            slow = request(upstream.port, scheme="https", timeout=limits)
            with pytest.raises(httpx.ConnectTimeout):
                await fetch(Transport(Clock(), 4.0, ssl.create_default_context()), slow)
            while upstream.visits and not upstream.visits[0].reader.at_eof():
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.01)
            assert len(os.listdir("/proc/self/fd")) <= before

    play(main)
