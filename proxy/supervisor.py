"""The parent of all processes: it binds, forks, replaces who dies, and stops them in order.

It runs no event loop and no threads and handles no traffic, so that it is always there. Workers
carry traffic, one listening socket each; the keeper serves the admin port. The sockets are kept
open here, so that connections which wait in a dead worker's queue are its successor's.
"""

import gc
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from setproctitle import setproctitle

from proxy import __version__
from proxy.child import Lifeline, fork
from proxy.config import SECRET_VARIABLE, Config, check_loop
from proxy.greeting import greeting, warnings
from proxy.health import answers
from proxy.holder import Holder
from proxy.notices import say
from proxy.origin import API_KEY, Secret
from proxy.signals import HANDLED, STOPS, Signals
from proxy.sockets import Sockets, opened
from proxy.succession import hand_over, settled

RunWorker = Callable[[Config, int, socket.socket, str], None]
RunKeeper = Callable[[Config, socket.socket, socket.socket], None]
RunScout = Callable[[Config, str], None]

MARGIN = 5.0  # seconds, for what a process does once its streams have ended
LAST_WORDS = 2.0  # seconds, for what a process does that has to end at once
STARTED = 1.0  # seconds; who dies sooner waits longer each time before the next try
LONGEST_WAIT = 10.0
# Where another process shares the port, every second answer is its own: so many in a row are not.
BESIDE = 8
ALONE_SECONDS = 1.0  # between two looks whether a predecessor is gone
LOOK_AGAIN = 0.05  # seconds between two looks whether everything is ready


class Hurry(Exception):
    """A second signal: end at once."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number  # what shells say of a program that a signal ended


class Failed(Exception):
    """A process could not start."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class Child:
    """A process that there has to be; `pid` is 0 while it is not there. Times of the clock."""

    name: str
    run: Callable[[], None]
    pid: int = 0
    started: float = 0.0
    due: float = 0.0
    early: int = 0  # deaths soon after the start, in a row


class Supervisor:
    """Runs one keeper and `config.workers` workers on `sockets` until a signal says to stop.

    And one scout, if there is something for it to do. `run_worker(config, slot, listener,
    channel_path)`, `run_keeper(config, admin, channel)` and `run_scout(config, channel_path)` are
    what the children do: each returns once it has done what SIGTERM asks for. `reload` is called
    on SIGHUP, before the children get it. `parent`: see `Signals`.
    """

    def __init__(
        self,
        config: Config,
        sockets: Sockets,
        run_worker: RunWorker,
        run_keeper: RunKeeper,
        run_scout: RunScout,
        reload: Callable[[], None],
        parent: int | None = None,
    ) -> None:
        self._config = config
        self._sockets = sockets
        self._run_worker = run_worker
        self._run_keeper = run_keeper
        self._run_scout = run_scout
        self._reload = reload
        self._keeper = Child("keeper", self._as_keeper)
        self._workers = [
            Child(f"worker {slot}", partial(self._as_worker, slot))
            for slot in range(config.workers)
        ]
        scouts = [Child("scout", self._as_scout)] if config.scouted else []
        self._children = [self._keeper, *scouts, *self._workers]
        self._lifeline = Lifeline()
        self._signals = Signals(parent)
        self._ready = False
        self._settled = not config.reuse_port

    def run(self) -> int:
        """The exit code, when all is over."""
        try:
            while (number := self._signals.next()) not in STOPS:
                if number == signal.SIGHUP:
                    self._reload()
                    _signal(self._children, number)
                self._start()
                self._announce()
                self._settle()
                self._signals.wait(self._patience())
                self._reap()
            self._drain()
        except Hurry as hurry:
            self._hurry()
            return hurry.code
        except Failed as failed:
            return failed.code
        finally:
            self._kill(self._children)
        return 0

    # --- what children do -----------------------------------------------------------------------

    def _as_worker(self, slot: int) -> None:
        self._lifeline.follow(signal.SIGQUIT)
        listener = self._sockets.data[slot]
        self._sockets.keep(listener)
        self._run_worker(self._config, slot, listener, self._sockets.channel_path)

    def _as_keeper(self) -> None:
        self._lifeline.follow(signal.SIGQUIT)
        self._sockets.keep(self._sockets.admin, self._sockets.channel)
        self._run_keeper(self._config, self._sockets.admin, self._sockets.channel)

    def _as_scout(self) -> None:
        self._lifeline.follow()
        self._sockets.keep()
        self._run_scout(self._config, self._sockets.channel_path)

    # --- running --------------------------------------------------------------------------------

    def _start(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not child.pid and child.due <= now:
                child.pid = fork(child.name, child.run, HANDLED, self._lifeline)
                child.started = now

    def _announce(self) -> None:
        times = BESIDE if self._config.reuse_port else 1
        where = self._sockets.admin_address
        if not self._ready and all(answers(where, "/readyz") for _ in range(times)):
            self._ready = True
            say(greeting(self._config, self._sockets), f"tokometer {__version__}")

    def _settle(self) -> None:
        """Once a predecessor is gone, all sockets of a port get their share."""
        if self._ready and not self._settled:
            self._settled = settled(self._sockets.data) and settled([self._sockets.admin])

    def _patience(self) -> float | None:
        """Seconds until there is something to do, None until a signal."""
        if not self._ready:
            return LOOK_AGAIN
        now = time.monotonic()
        due = [child.due for child in self._children if not child.pid]
        if not self._settled:
            due.append(now + ALONE_SECONDS)
        return max(0.0, min(due) - now) if due else None

    def _reap(self) -> None:
        """Notes who has died and when it shall be there again."""
        for child, code in self._ended():
            if not self._ready and code > 0:
                raise Failed(code)
            now = time.monotonic()
            child.early = child.early + 1 if now - child.started < STARTED else 0
            child.due = now + _wait(child.early)
            how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            say(f"{child.name} {how}, starting another")

    def _ended(self) -> Iterator[tuple[Child, int]]:
        """Children that have ended since the last call, with exit code or minus the signal."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for child in self._children:
                if child.pid == pid:
                    child.pid = 0
                    yield child, os.waitstatus_to_exitcode(status)

    # --- stopping -------------------------------------------------------------------------------

    def _drain(self) -> None:
        """The keeper last: while streams end it still tells of them."""
        if self._config.reuse_port:
            hand_over(self._sockets.data)
            hand_over([self._sockets.admin])
        self._sockets.keep(self._sockets.admin, self._sockets.channel)
        others = [child for child in self._children if child is not self._keeper]
        self._end(others, self._config.drain_seconds + MARGIN)
        self._end([self._keeper], MARGIN)

    def _end(self, children: Sequence[Child], seconds: float) -> None:
        """Asks them to end and waits for it, then makes them."""
        _signal(children, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while any(child.pid for child in children) and time.monotonic() < deadline:
            self._signals.wait(max(0.0, deadline - time.monotonic()))
            if (number := self._signals.next()) in STOPS:
                raise Hurry(number)
            for _ in self._ended():
                pass
        self._kill(children)

    def _hurry(self) -> None:
        """Streams are cut at once, but what is known of them shall be told."""
        for children in (self._workers, [self._keeper]):
            _signal(children, signal.SIGQUIT)
            deadline = time.monotonic() + LAST_WORDS
            while any(child.pid for child in children) and time.monotonic() < deadline:
                self._signals.wait(max(0.0, deadline - time.monotonic()))
                self._signals.next()
                for _ in self._ended():
                    pass

    def _kill(self, children: Sequence[Child]) -> None:
        _signal(children, signal.SIGKILL)
        for child in children:
            if child.pid:
                os.waitpid(child.pid, 0)
                child.pid = 0


def _signal(children: Iterable[Child], number: int) -> None:
    for child in children:
        if child.pid:
            os.kill(child.pid, number)


def _wait(early: int) -> float:
    """Seconds until a process is started again that died `early` times soon after its start."""
    return min(0.05 * 2**early, LONGEST_WAIT) if early else 0.0


def _with_secret(config: Config) -> Config:
    """All workers, and those that replace them, hash API keys with the same secret."""
    if config.user_from != API_KEY or config.user_secret:
        return config
    say(f"users by api-key get other names at every start: set {SECRET_VARIABLE} to keep them")
    return replace(config, user_secret=Secret(secrets.token_bytes(32)))


def serve(config: Config, parent: int | None = None) -> int:
    """Runs the proxy until it is told to stop; the exit code. Raises SettingError.

    `parent`: a descriptor that becomes readable when the process is gone that this one belongs to.
    """
    holder = Holder(config.papers)
    with opened(config) as sockets:
        check_loop(config)
        config = _with_secret(config)
        setproctitle("tokometer: supervisor")
        for line in warnings(config):
            say(f"warning: {line}")
        from proxy.app import run_keeper, run_scout, run_worker

        # What is loaded by now stays shared between the processes, and is never looked through.
        gc.collect()
        gc.freeze()
        return Supervisor(
            config,
            sockets,
            partial(run_worker, holder.now),
            partial(run_keeper, holder.now),
            partial(run_scout, holder.now),
            holder.reload,
            parent,
        ).run()
