"""A forked process that starts clean, says in one line what went wrong, and never outlives us."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

from proxy.settings import SettingError

BAD_INPUT = 2
FAILED = 1


class Lifeline:
    """A pipe that ends when this process does, even by SIGKILL: nobody else can write to it.

    `end` is the descriptor that becomes readable then.
    """

    def __init__(self) -> None:
        self.end, self._held = os.pipe()

    def let_go(self) -> None:
        """In a child: it is the parent's life that counts."""
        os.close(self._held)

    def follow(self) -> None:
        """In a child: end when the parent has."""
        threading.Thread(target=self._wait, name="lifeline", daemon=True).start()

    def _wait(self) -> None:
        os.read(self.end, 1)
        os._exit(FAILED)


def fork(name: str, run: Callable[[], object], signals: Iterable[int], lifeline: Lifeline) -> int:
    """Runs `run` in a child and gives its process id.

    The child has the default handlers of `signals` and a process group of its own: Ctrl-C in a
    terminal is for the parent, which tells its children in order. `run` has to see to it that it
    ends with the parent: by `lifeline.follow`, or by `lifeline.end` if it must run no threads. The
    exit code is 0, 2 after a SettingError, 1 after any other failure.
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
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        lifeline.let_go()
        code = _outcome(name, run)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _outcome(name: str, run: Callable[[], object]) -> int:
    """Runs it; the exit code."""
    try:
        run()
    except SettingError as error:
        print(f"tokometer: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"tokometer: {name}: {error}", file=sys.stderr)
        return FAILED
    except Exception:
        print(f"tokometer: {name} failed:\n{traceback.format_exc()}", end="", file=sys.stderr)
        return FAILED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return 0
