"""What a process and all that it started cost, by the accounts of the operating system (Linux)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """Bytes. Of what several processes share, `proportional` counts each its part."""

    resident: int
    proportional: int


NONE = Memory(0, 0)


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))
    except OSError:  # it has ended meanwhile
        return


def processor_seconds(pid: int) -> float:
    """User and system time of the tree, of children that have ended too.

    Source: proc(5), /proc/PID/stat, fields utime, stime, cutime, cstime. They are kept in clock
    ticks, so that a difference is uncertain by a tick or two for each process.
    """
    ticks = 0
    for process in tree(pid):
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks * TICK_SECONDS


def scheduled_seconds(pid: int) -> float:
    """Time on a processor of the tree's threads that live now, to the nanosecond.

    Source: Linux, Documentation/scheduler/sched-stats, /proc/PID/task/TID/schedstat, first field.
    """
    total = 0
    for process in tree(pid):
        try:
            for task in Path(f"/proc/{process}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


def host_seconds() -> float:
    """Processor time of everything on the host, stolen time included (proc(5), /proc/stat)."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) * TICK_SECONDS


def stolen_seconds() -> float:
    """Processor time that the hypervisor gave to others (proc(5), /proc/stat)."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) * TICK_SECONDS


def memory(pid: int) -> Memory:
    """Memory of the tree."""
    resident = proportional = 0
    for process in tree(pid):
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        for line in text.splitlines():
            field, _, rest = line.partition(":")
            if field == "Rss":
                resident += int(rest.split()[0]) * 1024
            elif field == "Pss":
                proportional += int(rest.split()[0]) * 1024
    return Memory(resident, proportional)


def connections(pid: int) -> dict[int, int]:
    """Open sockets of each process of the tree."""
    return {process: _sockets(process) for process in tree(pid)}


def _sockets(pid: int) -> int:
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(descriptor).startswith("socket:")
        except OSError:  # closed meanwhile
            continue
    return count
