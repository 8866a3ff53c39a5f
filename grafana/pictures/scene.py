"""What the pictures show: three engines, one of which is replaced by a slower version."""

import asyncio
import datetime
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import MINUTE, PRESETS, Baseline
from grafana.pictures.prometheus import Prometheus, running
from proxy.config import Upstream
from proxy.demo.programs import Programs
from proxy.demo.run import SIMULATIONS, Simulation, configured
from proxy.demo.traffic import Traffic
from proxy.engine import EngineSettings, engine_server
from proxy.sockets import listen
from proxy.supervisor import serve

SCRAPE = 5  # seconds
# Users at the least and at the most, more of them than in the demo: a curve needs some width.
CROWDS = {"sim-8b": (1, 20), "sim-70b": (1, 10), "sim-reasoner": (1, 5)}
REPLACED = "sim-8b"
SLOWER = 1.3  # times as slow is its next version
DEPLOY = 0.7  # of the time is over when it comes
# Now is a minute and the baseline ends before the deploy, so that minutes show what days would.
RULES = replace(PRESETS["live"], baseline=Baseline(6 * MINUTE, 5 * MINUTE, MINUTE))


@dataclass(frozen=True)
class Watched:
    """A time that a Prometheus has seen, from `start` to `end` (seconds since the epoch)."""

    prometheus: Prometheus
    start: float
    end: float


@contextmanager
def watched(folder: Path, seconds: float) -> Iterator[Watched]:
    """Lets the scene play for so long; its data are in `folder`."""
    rules = folder / "rules.yml"
    rules.write_text(files.recording(RULES), "utf-8")
    alerts = folder / "alerts.yml"
    alerts.write_text(files.alerting(RULES), "utf-8")
    with Programs() as programs:
        admin = _start(programs, seconds)
        with running(folder, f"127.0.0.1:{admin}", f"{SCRAPE}s", (rules, alerts)) as prometheus:
            start, deadline = _date(), time.monotonic() + seconds
            while time.monotonic() < deadline:
                programs.check()
                time.sleep(1)
            yield Watched(prometheus, start, _date())


def _date() -> float:
    return datetime.datetime.now(datetime.UTC).timestamp()


def _start(programs: Programs, seconds: float) -> int:
    """Engines, the proxy and its users; the port of the metrics."""
    scene = [_peopled(one) for one in SIMULATIONS]
    upstreams = tuple(_engine(programs, one, seconds * DEPLOY) for one in scene)
    port, admin_port = _free_port(), _free_port()
    config = configured(upstreams, port=port, admin_port=admin_port)
    programs.start("the proxy", partial(serve, config, programs.lifeline.end))
    traffic = Traffic(f"http://127.0.0.1:{port}", [one.crowd for one in scene])

    def follow_and_ask() -> None:
        programs.lifeline.follow()
        asyncio.run(traffic.run())

    programs.start("traffic", follow_and_ask)
    return admin_port


def _peopled(simulation: Simulation) -> Simulation:
    fewest, most = CROWDS[simulation.crowd.model]
    return replace(simulation, crowd=replace(simulation.crowd, fewest=fewest, most=most))


def _free_port() -> int:
    with listen("127.0.0.1", 0) as free:
        return int(free.getsockname()[1])


def _engine(programs: Programs, simulation: Simulation, deploy: float) -> Upstream:
    port, replaced = _free_port(), simulation.crowd.model == REPLACED

    def follow_and_serve() -> None:
        programs.lifeline.follow()
        _serve(simulation.engine, "1.4.0", port, deploy if replaced else None)
        slower = replace(simulation.engine, rate=simulation.engine.rate / SLOWER)
        _serve(slower, "1.5.0", port)

    programs.start(f"engine {simulation.crowd.model}", follow_and_serve)
    prefix = simulation.crowd.path or "/"
    return Upstream(simulation.upstream, "http", "127.0.0.1", port, prefix=prefix)


def _serve(settings: EngineSettings, version: str, port: int, seconds: float | None = None) -> None:
    """An engine of this version, for so long or for good."""
    server = engine_server(settings)
    server.config.app = _saying(version, server.config.app)
    server.config.headers = [("server", f"tokometer-engine/{version}")]
    if seconds is not None:
        threading.Timer(seconds, partial(setattr, server, "should_exit", True)).start()
    server.run(sockets=[listen("127.0.0.1", port)])


def _saying(version: str, engine: Any) -> ASGIApp:
    """The engine (an ASGI application), which says where it is asked that it is this version."""
    answer = JSONResponse({"version": version})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope.get("path") in ("/version", "/api/version")
        await (answer if asked else engine)(scope, receive, send)

    return app
