"""TCP's keep-alive probes.

A machine that lost its power says nothing, and a stream that waits has no time limit of ours.
"""

import asyncio
import socket

# Found dead after a minute and a half of silence; with the system's own times after two hours.
_TIMES = {"TCP_KEEPIDLE": 45, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}


def probe(transport: asyncio.Transport) -> None:
    """Have the kernel find out whether the other side is still there."""
    sock = transport.get_extra_info("socket")
    if sock.family == socket.AF_UNIX:  # on this machine, whose end is ours
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TIMES.items():
        if hasattr(socket, name):  # not everywhere
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
