"""The admin listener: metrics and health. It changes nothing and asks no upstream."""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client.core import Metric
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.exposition import chosen

# Each holds a copy of all metrics while it is made.
_PAGES_AT_ONCE = 2


class _ReadOnly:
    """Refuses every method but GET and HEAD, whatever the path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            app = PlainTextResponse("only GET and HEAD\n", 405, {"Allow": "GET, HEAD"})
        await app(scope, receive, send)


def admin(collect: Callable[[], Sequence[Metric]], unready: Callable[[], str | None]) -> Starlette:
    """The application.

    Args:
        collect: a copy of all metrics.
        unready: why no request should be sent here; None if all is well.
    """

    making = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def metrics(request: Request) -> Response:
        form = chosen(request.headers.get("accept", ""))
        async with making:
            # In a thread: a big registry takes long enough to be noticed.
            body = await asyncio.to_thread(form.render, collect())
        return Response(body, headers={"Content-Type": form.media_type})

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        reason = unready()
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)

    routes = [Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    return Starlette(routes=routes, middleware=[Middleware(_ReadOnly)])
