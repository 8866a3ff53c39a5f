"""A process that takes over a port: the kernel is told to send it what comes from now on.

Sockets that share a port (SO_REUSEPORT) get new connections by chance, and one that is closed
takes those with it that wait in its queue. With a program on their group, nothing new comes to the
old ones, so that their queues can be emptied first. The kernel numbers the sockets of a group in
the order of their `listen`, and moves the last one into a gap (net/core/sock_reuseport.c), so that
those of the only process have the first numbers. A number that no socket has means none:
then all of the group take their share, as before.
"""

import contextlib
import ctypes
import socket
import struct
import sys
from collections.abc import Sequence

_ATTACH = 51  # SO_ATTACH_REUSEPORT_CBPF in asm-generic/socket.h
_RETURN = 0x06  # BPF_RET | BPF_K in linux/bpf_common.h


def hand_over(listeners: Sequence[socket.socket]) -> None:
    """Sends new connections to the process that listens beside these sockets, if there is one.

    `listeners`: all of this process on one port. Does nothing on systems that cannot.
    """
    if sys.platform != "linux" or listeners[0].family == socket.AF_UNIX:
        return
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, len(listeners)))
    program = struct.pack("HP", 1, ctypes.addressof(instruction))
    with contextlib.suppress(OSError):  # a socket that shares nothing, or an old kernel
        listeners[0].setsockopt(socket.SOL_SOCKET, _ATTACH, program)
