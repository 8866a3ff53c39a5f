"""A transport with an upstream on paper: answers by path, at exact times that nobody waits for."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import orjson

from proxy.answer import Answer, Shortcut

EVENTS = "text/event-stream"
Reads = Sequence[tuple[float, bytes]]  # seconds after the request, infinity for never


class Source:
    """What an answer comes over, with nothing behind it."""

    keep = False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def received(self, data: bytes, at: float) -> None: ...

    def shorten(self, way: Shortcut | None) -> None: ...


class Server(httpx.AsyncBaseTransport):
    """Answers by path, with reads that arrive so many seconds after the request, at once."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self._answers: dict[str, Callable[[Any], tuple[int, str, Reads]]] = {}

    def knows(self, path: str, content: Reads | dict[str, Any], status: int = 200) -> None:
        self.decides(path, lambda _: self.form(content, status))

    def decides(self, path: str, answer: Callable[[Any], tuple[int, str, Reads]]) -> None:
        self._answers[path] = answer

    @staticmethod
    def form(content: Reads | dict[str, Any], status: int = 200) -> tuple[int, str, Reads]:
        if isinstance(content, dict):
            return status, "application/json", [(0.0, orjson.dumps(content))]
        return status, EVENTS, content

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        body = orjson.loads(content) if content else None
        path = request.extensions["target"].decode()
        self.asked.append((request.method, path, body))
        self.headers.append(request.headers)
        unknown = self.form({"error": {}}, 404)
        status, kind, reads = self._answers[path](body) if path in self._answers else unknown
        answer = Answer(Source(), lambda: None)
        began = self.now
        for after, data in reads:
            if after == math.inf:
                await asyncio.Event().wait()
            self.now = began + after
            answer.take(data, self.now, None)
        answer.finish(self.now)
        return httpx.Response(status, headers={"Content-Type": kind}, stream=answer)

    @property
    def posts(self) -> list[tuple[str, Any]]:
        return [(path, body) for method, path, body in self.asked if method == "POST"]
