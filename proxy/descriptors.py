"""Descriptors: the three that every program has, and room for as many as the system allows."""

import fcntl
import os
import resource
import sys

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


def fill_standard() -> None:
    """Open /dev/null as standard input, output and error where there is none (`>&-`).

    Else a socket would get its number, and be written to by who believes that it is a standard
    one; event loops do not even begin.
    """
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
