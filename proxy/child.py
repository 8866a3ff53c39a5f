"""A forked process that starts clean, says in one line what went wrong, and never outlives us."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from setproctitle import setproctitle

from proxy.notices import hush, say, trace
from proxy.settings import SettingError

BAD_INPUT = 2
FAILED = 1
_PARENTS = (signal.SIGHUP, signal.SIGUSR1)
_LAST_WORDS_SECONDS = 3.0  # for a process whose parent is gone


class Lifeline:
    """A pipe that ends when this process does, even by SIGKILL: nobody else can write to it.

    `end` is the descriptor that becomes readable then.
    """

    def __init__(self) -> None:
        self.end, self._held = os.pipe()

    def let_go(self) -> None:
        """In a child: it is the parent's life that counts."""
        os.close(self._held)

    def follow(self, number: int | None = None) -> None:
        """In a child: end when the parent has.

        `number`: a signal that lets the process finish what it must, in a short time.
        """
        threading.Thread(target=self._wait, args=(number,), name="lifeline", daemon=True).start()

    def _wait(self, number: int | None) -> None:
        os.read(self.end, 1)
        if number is not None:
            os.kill(os.getpid(), number)
            time.sleep(_LAST_WORDS_SECONDS)
        os._exit(FAILED)


def fork(name: str, run: Callable[[], object], signals: Iterable[int], lifeline: Lifeline) -> int:
    """Runs `run` in a child and gives its process id.

    The child has the default handlers of `signals`, but ignores SIGHUP until it has its own: what
    that is to have read anew was not read yet. SIGUSR1 is for the parent alone. It has a process
    group of its own: Ctrl-C in a terminal is for the parent, which tells its children in order.
    `name` is its title.

    `run` has to see to it that it ends with the parent: by `lifeline.follow`, or by `lifeline.end`
    if it must run no threads. The exit code is 0, 2 after a SettingError, 1 after other failures.
    """
    # Between fork and reset a signal would run the parent's handlers in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    pid = os.fork()
    if pid == 0:
        _child(name, run, signals, before, lifeline)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _child(
    name: str,
    run: Callable[[], object],
    signals: Iterable[int],
    mask: set[int],
    lifeline: Lifeline,
) -> NoReturn:
    # Whatever happens, this process must not return into what its parent was doing.
    code = FAILED
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in signals:
            signal.signal(number, signal.SIG_IGN if number in _PARENTS else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        lifeline.let_go()
        setproctitle(f"tokometer: {name}")
        hush()
        code = _outcome(name, run)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _outcome(name: str, run: Callable[[], object]) -> int:
    """Runs it; the exit code."""
    try:
        run()
    except SettingError as error:
        say(str(error))
        return BAD_INPUT
    except OSError as error:
        say(f"{name}: {error}")
        return FAILED
    except Exception as error:
        say(f"{name} failed, please report: {trace(error)}")
        return FAILED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return 0
