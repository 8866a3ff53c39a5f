"""Hosts of several addresses, some of them dead."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy_rig import Clock, play
from test_upstream import fetch
from upstreams import answering, sized

from proxy import dialing
from proxy.dialing import connected, dial, in_turn, knock, literal
from proxy.upstream import Transport

Names = dict[str, list[tuple[str, int]]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Addresses by name, as the resolver gives them."""
    known: Names = {}

    async def resolve(host: str, port: int) -> list[dialing.Address]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in one[0] else socket.AF_INET, one) for one in known[host]]

    monkeypatch.setattr(dialing, "_resolve", resolve)
    return known


@contextmanager
def deaf() -> Iterator[int]:
    """A port of 127.0.0.1 on which connections are not made and not refused."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def closed() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def ask(host: str) -> httpx.Request:
    return httpx.Request("GET", f"http://{host}/", stream=httpx.ByteStream(b""))


@pytest.mark.parametrize("dead", ["refusing", "deaf", "both"])
def test_dead_address_does_not_keep_a_live_one_from_being_found(names: Names, dead: str) -> None:
    async def main() -> None:
        with deaf() as silent:
            bad = {"refusing": [closed()], "deaf": [silent], "both": [closed(), silent]}[dead]
            async with answering(sized(b"hello")) as upstream:
                names["some.test"] = [("127.0.0.1", port) for port in [*bad, upstream.port]]
                transport = Transport(Clock(), 4.0)
                for _ in range(2):
                    assert await fetch(transport, ask("some.test")) == b"hello"
                assert len(upstream.visits) == 1
                await transport.aclose()

    play(main)


def test_slow_address_may_still_win(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "_NEXT_SECONDS", 0.0)

    async def main() -> None:
        async with answering(sized(b"one")) as upstream:
            names["some.test"] = [("127.0.0.1", upstream.port), ("127.0.0.1", closed())]
            with await dial("some.test", 1) as sock:
                assert sock.getpeername() == ("127.0.0.1", upstream.port)

    play(main)


def test_when_all_addresses_are_dead_the_first_says_why(names: Names) -> None:
    async def main() -> None:
        names["some.test"] = [("127.0.0.1", closed()), ("::1", closed()), ("127.0.0.1", closed())]
        told: list[float | None] = []
        transport = Transport(Clock(), 4.0, connected=told.append)
        with pytest.raises(httpx.ConnectError, match=r"^Connection refused$"):
            await fetch(transport, ask("some.test"))
        with pytest.raises(httpx.ConnectError, match=r"^its name cannot be resolved$"):
            await fetch(transport, ask("other.test"))
        assert told == [None, None]

    play(main)


def test_time_limit_is_for_all_addresses_and_no_socket_is_left(names: Names) -> None:
    async def main() -> None:
        with deaf() as silent:
            names["some.test"] = [("127.0.0.1", silent)] * 3
            before = os.listdir("/proc/self/fd")
            request = ask("some.test")
            request.extensions["timeout"] = {"connect": 0.6}
            with pytest.raises(httpx.ConnectTimeout, match=r"within 0\.6 s"):
                await fetch(Transport(Clock(), 4.0), request)
            assert len(os.listdir("/proc/self/fd")) == len(before)

    play(main)


def test_name_that_moves_is_followed_once_its_old_connections_are_old(names: Names) -> None:
    async def main() -> None:
        clock = Clock()
        async with answering(sized(b"old")) as old, answering(sized(b"new")) as new:
            transport = Transport(clock, 4.0)
            names["some.test"] = [("127.0.0.1", old.port)]
            assert await fetch(transport, ask("some.test")) == b"old"
            names["some.test"] = [("127.0.0.1", new.port)]
            for _ in range(101):  # never idle for long
                clock.now += 3
                assert await fetch(transport, ask("some.test")) == b"old"
            assert await fetch(transport, ask("some.test")) == b"new"
            await transport.aclose()

    play(main)


def test_real_names_and_both_families_are_connected_to() -> None:
    async def main() -> None:
        async with answering(sized(b"hello")) as upstream:
            transport = Transport(Clock(), 4.0)
            assert await fetch(transport, ask(f"localhost:{upstream.port}")) == b"hello"
            await transport.aclose()

    play(main)


def test_lack_of_descriptors_is_not_blamed_on_the_upstream(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(family: int, address: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async def main() -> None:
        names["some.test"] = [("127.0.0.1", 1)]
        monkeypatch.setattr(dialing, "_attempt", full)
        told: list[float | None] = []
        with pytest.raises(httpx.ConnectError, match="no descriptors left: raise its limit"):
            await fetch(Transport(Clock(), 4.0, connected=told.append), ask("some.test"))
        assert told == []

    play(main)


FAMILIES = st.lists(st.sampled_from([socket.AF_INET, socket.AF_INET6]), min_size=1, max_size=9)


@given(FAMILIES)
def test_families_take_turns_and_no_address_is_lost(families: list[socket.AddressFamily]) -> None:
    addresses = [(int(family), number) for number, family in enumerate(families)]
    found = in_turn(addresses)
    assert sorted(found, key=lambda one: one[1]) == addresses
    assert found[0] == addresses[0]
    both = min(families.count(socket.AF_INET), families.count(socket.AF_INET6))
    assert all(found[i][0] != found[i + 1][0] for i in range(2 * both - 1))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", (socket.AF_INET, ("127.0.0.1", 80))),
        ("::1", (socket.AF_INET6, ("::1", 80))),
        ("fe80::1%eth0", None),
        ("localhost", None),
        ("1.2.3", None),
        ("", None),
    ],
)
def test_only_whole_addresses_need_no_resolver(host: str, address: dialing.Address | None) -> None:
    assert literal(host, 80) == address


def test_address_on_this_machine_is_connected_to_without_waiting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock, there = knock((socket.AF_INET, server.getsockname()))
        with sock, server.accept()[0] as other:
            assert there
            assert sock.send(b"hello") == 5
            assert other.recv(100) == b"hello"


@pytest.mark.parametrize("unix", [False, True])
def test_address_where_nobody_listens_refuses_and_no_socket_is_left(
    unix: bool, tmp_path: Path
) -> None:
    path = (socket.AF_UNIX, str(tmp_path / "nobody"))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as caught:
        knock(path if unix else (socket.AF_INET, ("127.0.0.1", closed())))
    assert caught.value.errno == (errno.ENOENT if unix else errno.ECONNREFUSED)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("listening", [True, False])
def test_connection_that_is_under_way_is_waited_for(listening: bool) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
            sock.setblocking(False)
            where = server.getsockname() if listening else ("127.0.0.1", closed())
            assert sock.connect_ex(where) == errno.EINPROGRESS
            if listening:
                await connected(sock)
                assert sock.getpeername() == server.getsockname()
            else:
                with pytest.raises(ConnectionRefusedError):
                    await connected(sock)

    play(main)


def test_one_that_is_waited_for_no_more_is_forgotten() -> None:
    async def main() -> None:
        with deaf() as port, socket.socket() as sock:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
            waiting = asyncio.ensure_future(connected(sock))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not asyncio.get_running_loop().remove_writer(sock)

    play(main)
