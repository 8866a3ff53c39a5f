"""Room for as many connections as the system allows, made before the first one comes."""

import fcntl
import os
import resource

_MOST = 1 << 16


def make_room() -> None:
    """Raise this process's limit of open files, and have the kernel make the table for them now.

    A stream takes two. The usual limit of 1,024 is for programs that use select(2). The kernel
    enlarges the table when it is full, for which a process with a second thread waits 5 to 30 ms
    each time: in the middle of traffic every stream would be late by that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # RLIM_INFINITY is -1.
    room = min(limit if limit != resource.RLIM_INFINITY else _MOST for limit in (hard, _MOST))
    if soft != resource.RLIM_INFINITY and soft < room:
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    reader, writer = os.pipe()
    os.close(fcntl.fcntl(reader, fcntl.F_DUPFD, room - 1))
    os.close(reader)
    os.close(writer)
