"""Lines on standard error, and what may be said there of a failure.

A log that nobody takes must stop nothing: a line that does not go out at once is let go.
"""

import contextlib
import os
import select
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any

_LONGEST_BYTES = 4096  # a pipe that is writable takes so much without blocking
_DEEPEST = 12


def say(text: str, name: str = "tokometer") -> None:
    """One line, or the few of a trace; never waits, never fails."""
    line = f"{name}: {text}\n"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            fd = sys.stderr.fileno()
        except OSError:  # no file, but something that a test or an embedding program put there
            sys.stderr.write(line)
            return
        if select.select([], [fd], [], 0)[1]:
            os.write(fd, line.encode(errors="replace")[:_LONGEST_BYTES])


def report(_: object, context: Mapping[str, Any]) -> None:
    """What an event loop calls of a failure in a callback: its own text would quote data."""
    error = context.get("exception")
    what = place(error) if isinstance(error, BaseException) else "an event loop's complaint"
    say(f"{what}, please report")


def hush() -> None:
    """Python's own last words of threads and finalizers quote, too: from now on as `say` does."""
    threading.excepthook = lambda what: _last(what.exc_value)
    sys.unraisablehook = lambda what: _last(what.exc_value)


def _last(error: BaseException | None) -> None:
    if error is not None:
        say(f"{place(error)}, please report")


def place(error: BaseException) -> str:
    """Kind and place of a failure, never its message: that may quote somebody's text."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    return f"{type(error).__name__} in {_where(frames[-1])}"


def trace(error: BaseException) -> str:
    """The same with the way there, innermost last, one place a line."""
    frames = traceback.extract_tb(error.__traceback__)[-_DEEPEST:]
    return "\n".join([type(error).__name__, *(f"  {_where(f)} {f.name}" for f in frames)])


def _where(frame: traceback.FrameSummary) -> str:
    return f"{os.path.basename(frame.filename)}:{frame.lineno}"
