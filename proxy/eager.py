"""Coroutines that begin at once, in the callback that made them, rather than in the loop's next
round: the reads of other sockets would come between.

Python 3.12 has eager tasks, 3.11 has not.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

Step = Coroutine[Any, Any, None]


def start(coroutine: Step, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
    """Run it up to where it first waits; from there on it is a task. None if it never waits.

    What it does before is in no task: `asyncio.timeout`, which needs one, has to stand behind a
    `sleep(0)`.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_Begun(coroutine, awaited))


class _Begun(Coroutine[Any, Any, None]):
    """The rest of a coroutine that waits already."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Step, awaited: Any) -> None:
        self._coroutine = coroutine
        self._awaited: list[Any] = [awaited]

    def send(self, value: None) -> Any:
        """What it waits for: to begin with, what it waited for when this was made."""
        return self._awaited.pop() if self._awaited else self._coroutine.send(value)

    def throw(self, *problem: Any) -> Any:
        """Raise a problem where it waits."""
        self._awaited.clear()
        return self._coroutine.throw(*problem)

    def close(self) -> None:
        """Let go of it."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("it is a task's, which sends and throws")
