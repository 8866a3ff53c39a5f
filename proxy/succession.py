"""A process that takes over a port: the kernel is told to send it what comes from now on.

Sockets that share a port (SO_REUSEPORT) get new connections by chance, and one that is closed
takes those with it that wait in its queue. With a program on their group, nothing new comes to the
old ones, so that their queues can be emptied first. The kernel numbers the sockets of a group in
the order of their `listen`, and moves the last one into a gap (net/core/sock_reuseport.c), so that
those of the only process have the first numbers. A number that no socket has means none:
then all of the group take their share, as before. Whoever took over takes the program away once it
is alone: it names one socket, and all of them shall have their share.
"""

import contextlib
import ctypes
import socket
import struct
import sys
from collections.abc import Sequence

_ATTACH = 51  # SO_ATTACH_REUSEPORT_CBPF in asm-generic/socket.h
_DETACH = 68  # SO_DETACH_REUSEPORT_BPF
_LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp
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


def settled(listeners: Sequence[socket.socket]) -> bool:
    """Whether nobody else listens on their port (any more); then all of them get their share."""
    if sys.platform != "linux" or listeners[0].family == socket.AF_UNIX:
        return True
    if _on_port(listeners[0].getsockname()[1]) > len(set(listeners)):
        return False
    with contextlib.suppress(OSError):  # there is none, or an old kernel
        listeners[0].setsockopt(socket.SOL_SOCKET, _DETACH, 0)
    return True


def _on_port(port: int) -> int:
    """How many sockets listen on it; 0 if that cannot be told."""
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            rows = [line.split() for line in lines]
            count += sum(
                row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port
                for row in rows[1:]
            )
    return count
