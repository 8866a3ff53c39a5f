"""Ways to run the simulated engine in tests: on a port, or in a time that nobody waits for."""

import asyncio
import selectors
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from openai import OpenAI
from starlette.types import ASGIApp, Message

from proxy.engine import EngineSettings, engine_server, url
from proxy.sockets import listen

T = TypeVar("T")

# For tests that look at what is said and not at when.
FAST: dict[str, Any] = {"ttft": 0.0, "rate": 100_000.0}


@contextmanager
def running(settings: EngineSettings) -> Iterator[str]:
    """The URL of an engine on a free port."""
    sock, server = listen(settings.host, settings.port), engine_server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield url(sock)
    finally:
        server.should_exit = True
        thread.join()


def openai_client(**settings: Any) -> Iterator[OpenAI]:
    """OpenAI's client, pointed at an engine that is fast but for these settings."""
    with (
        running(EngineSettings(**(FAST | settings))) as base,
        OpenAI(base_url=f"{base}/v1", api_key="-", max_retries=0) as client,
    ):
        yield client


class _Skipping(selectors.SelectSelector):
    """Time jumps to where the next timer is due."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everyone waits, and for nothing that will come"
        self.now += timeout
        return super().select(0)


class _InstantLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on a loop whose clock begins at 0 and passes only while all sleep."""
    with asyncio.Runner(loop_factory=_InstantLoop) as runner:
        return runner.run(work)


@dataclass
class Played:
    """An answer: what was sent and when."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    headers_at: float | None = None
    writes: list[tuple[float, bytes]] = field(default_factory=list)
    complete: bool = False

    def times(self, part: bytes) -> list[float]:
        """When writes left that contain `part`."""
        return [at for at, write in self.writes if part in write]

    @property
    def json(self) -> Any:
        return orjson.loads(b"".join(write for _, write in self.writes))


async def post(app: ASGIApp, path: str, body: Any, leave_after: float | None = None) -> Played:
    """Sends `body` (bytes as they are, anything else as JSON); leaves after so many seconds."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    whole: Message = {"type": "http.request", "body": content, "more_body": False}
    return await converse(app, path, [whole], leave_after)


async def converse(
    app: ASGIApp, path: str, inbox: list[Message], leave_after: float | None = None
) -> Played:
    """Sends messages as they are."""
    played, loop, left = Played(), asyncio.get_running_loop(), asyncio.Event()
    if leave_after is not None:
        loop.call_later(leave_after, left.set)

    async def receive() -> Message:
        if inbox:
            return inbox.pop(0)
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            played.status, played.headers_at = message["status"], loop.time()
            played.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            return
        if message["body"]:
            played.writes.append((loop.time(), message["body"]))
        played.complete = not message.get("more_body", False)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return played
