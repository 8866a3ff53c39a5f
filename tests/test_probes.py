import socket

import pytest
from handheld import Talk
from proxy_rig import play

from proxy.probes import probe

PROBED = (socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_kernel_is_told_to_probe_and_when() -> None:
    with socket.socket() as sock:
        probe(sock)
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
        probe(sock)
        assert sock.getsockopt(*PROBED)


def test_upstreams_are_probed() -> None:
    async def main() -> None:
        assert Talk().wire.get_extra_info("socket").set[PROBED]

    play(main)
