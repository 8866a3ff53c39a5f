"""Signals of the parent process, as a queue that it can wait at without threads or a loop."""

import math
import os
import select
import signal
import sys
import time

STOPS = (signal.SIGTERM, signal.SIGINT)
# What others call them: nginx's users, rotations of logs and images of containers expect these.
ALIASES: dict[int, int] = {signal.SIGUSR1: signal.SIGHUP, signal.SIGQUIT: signal.SIGTERM}
HANDLED = (*STOPS, *ALIASES, signal.SIGHUP, signal.SIGCHLD)
_LONGEST_SECONDS = 86400.0  # the kernel's own limit is not much higher on some systems
TWICE = 0.1  # seconds: `timeout` and others signal a process and its group, which is one wish


class Signals:
    """Signals to this process; `wait` returns early when one comes.

    `parent` becomes readable when the parent is gone, which is as good as SIGTERM.
    """

    def __init__(self, parent: int | None) -> None:
        self._seen: list[tuple[int, float]] = []
        self._stopped = -math.inf
        self._parent = [] if parent is None else [parent]
        self._wake, woken = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        if number == signal.SIGHUP and sys.stderr.isatty():
            number = signal.SIGTERM  # the terminal is gone; otherwise it is about log files
        number = ALIASES.get(number, number)
        if number != signal.SIGCHLD:
            self._seen.append((number, time.monotonic()))

    def wait(self, seconds: float | None) -> None:
        """For a signal, at most `seconds`."""
        if self._seen:
            return
        longest = None if seconds is None else min(seconds, _LONGEST_SECONDS)
        readable = select.select([self._wake, *self._parent], [], [], longest)[0]
        if self._wake in readable:
            os.read(self._wake, 4096)
        elif readable:
            self._parent = []
            self._note(signal.SIGTERM, None)

    def next(self) -> int:
        """The next one, taken out; 0 if there is none."""
        while self._seen:
            number, at = self._seen.pop(0)
            if number not in STOPS:
                return number
            if at - self._stopped > TWICE:
                self._stopped = at
                return number
        return 0
