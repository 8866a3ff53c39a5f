import asyncio
import socket

import pytest
from clients import get
from handheld import Talk
from proxy_rig import play, serving

from proxy.client import Client
from proxy.probes import probe

PROBED = (socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_kernel_is_told_to_probe_and_when() -> None:
    with socket.socket() as sock:
        probe(asyncio.Transport({"socket": sock}))
        assert sock.getsockopt(*PROBED)
        if hasattr(socket, "TCP_KEEPIDLE"):
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            idle, interval, count = (
                sock.getsockopt(socket.IPPROTO_TCP, option) for option in options
            )
            assert idle + interval * count < 120


def test_times_that_a_system_does_not_have_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name, raising=False)
    with socket.socket() as sock:
        probe(asyncio.Transport({"socket": sock}))
        assert sock.getsockopt(*PROBED)


def test_upstreams_and_clients_are_probed() -> None:
    async def app(client: Client) -> None:
        client.start(204, b"", [])
        client.end()

    async def main() -> None:
        assert Talk().wire.get_extra_info("socket").set[PROBED]
        async with serving(app) as listening:
            assert (await (await listening.client()).ask(get(b"/"))).status == 204
            (connection,) = listening.connections()
            assert connection.transport.get_extra_info("socket").getsockopt(*PROBED)

    play(main)
