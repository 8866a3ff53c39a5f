"""TCP's keep-alive probes.

A machine that lost its power says nothing, and a stream that waits has no time limit of ours.
"""

import socket

# Found dead after a minute and a half of silence; with the system's own times after two hours.
_TIMES = {"TCP_KEEPIDLE": 45, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}


def probe(sock: socket.socket) -> None:
    """Have the kernel find out whether the other side is still there.

    Of a listening socket: whether those of the connections that it accepts are.
    """
    if sock.family == socket.AF_UNIX:  # on this machine, whose end is ours
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TIMES.items():
        if hasattr(socket, name):  # not everywhere
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
