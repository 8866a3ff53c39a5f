"""The demo's other processes."""

import os
import signal
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from proxy.child import Lifeline, fork

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE = 10.0  # seconds for a process to end in before it is made to
LOOK_AGAIN = 0.02  # seconds between two looks whether it has


class Ended(Exception):
    """A process ended that should run; the text is one line."""


class Programs:
    """Processes that all end with this one. A context manager, at whose end they are ended.

    They are to be started before there is any thread or event loop.
    """

    def __init__(self) -> None:
        self.lifeline = Lifeline()
        self._names: dict[int, str] = {}  # by process id, in the order of their start

    def start(self, name: str, run: Callable[[], object]) -> None:
        """Runs it in a child, which ends with us if it does as `child.fork` says."""
        self._names[fork(name, run, SIGNALS, self.lifeline)] = name

    def check(self) -> None:
        """Raises Ended if one has ended."""
        for pid, name in self._names.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._names[pid]
                raise Ended(f"{name} ended with {os.waitstatus_to_exitcode(status)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The last one started is the one that uses the others.
        for pid in reversed(self._names):
            _end(pid)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_AGAIN)
