"""The simulated engine as an ASGI application: its paths."""

import asyncio
import time
from datetime import UTC, datetime

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from proxy.engine import chat, completions, messages, ollama, responses
from proxy.engine.ask import Refusal
from proxy.engine.exchange import Embed, Generate, error_response
from proxy.engine.settings import EngineSettings
from proxy.engine.simulation import Clock, Simulation, Sleep
from proxy.engine.wire import Payload

INTERFACES = (
    chat.CHAT,
    completions.COMPLETIONS,
    responses.RESPONSES,
    messages.MESSAGES,
    ollama.CHAT,
    ollama.GENERATE,
)


def build_app(
    settings: EngineSettings, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep
) -> Starlette:
    """The ASGI application. `clock` and `sleep` are in seconds and belong together."""
    simulation = Simulation(settings, clock, sleep)
    since = datetime.now(UTC)
    fixed = {
        "/v1/models": _models(settings.models, since),
        "/version": {"version": settings.release},
        "/api/version": {"version": settings.release},
        "/api/tags": ollama.tags(settings.models, since),
    }
    routes = [Route("/health", _Fixed(b""))]
    routes += [Route(path, _Fixed(orjson.dumps(fixed[path]))) for path in fixed]
    routes += [
        Route(each.path, Generate(simulation, each), methods=["POST"]) for each in INTERFACES
    ]
    routes += [Route("/v1/embeddings", Embed(simulation), methods=["POST"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_path})


def _models(names: tuple[str, ...], since: datetime) -> Payload:
    created = int(since.timestamp())
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": created, "owned_by": "tokometer"}
            for name in names
        ],
    }


class _Fixed:
    """Answers always the same."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Response(self._body, media_type="application/json")(scope, receive, send)


async def _no_such_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    what = f"{method} is not for {path}" if error.status_code == 405 else f"no such path: {path}"
    return error_response(path, Refusal(error.status_code, what), error.headers)
