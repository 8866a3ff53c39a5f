"""A keeper's end and workers' ends of a real Unix socket, on either event loop."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from proxy.receiver import Receiver

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(new_loop: NewLoop, script: Coroutine[Any, Any, None]) -> None:
    """Play `script` to its end, in a time that only a bug exceeds."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(script, 30))


async def until(holds: Callable[[], object]) -> None:
    """Wait until `holds` says so."""
    while not holds():
        await asyncio.sleep(0.005)


def listening(path: Path) -> socket.socket:
    """A socket that listens there, whatever was there before."""
    path.unlink(missing_ok=True)
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    unix.listen()
    return unix


class Ear:
    """A receiver and what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, list[dict[str, Any]]]] = []
        self.lost: list[int] = []
        self.receiver = Receiver(
            lambda connection, batch: self.heard.append((connection, batch)), self.lost.append
        )

    async def at(self, path: Path) -> "Ear":
        """Listen at `path`."""
        await self.receiver.start(listening(path))
        return self

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records so far."""
        return [record for _, batch in self.heard for record in batch]

    def kinds(self) -> list[str]:
        """Their kinds."""
        return [record["kind"] for record in self.records]
