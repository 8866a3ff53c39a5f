"""The demo from start to end."""

import asyncio
import contextlib
import itertools
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from proxy.address import UNIX
from proxy.config import Config, Upstream, arranged
from proxy.demo.programs import SIGNALS, Ended, Programs
from proxy.demo.settings import DemoSettings
from proxy.demo.speeds import live_line, summary
from proxy.demo.traffic import Crowd, Traffic
from proxy.devices import GB, TB
from proxy.dials import DialTable
from proxy.engine import EngineSettings, serve_engine
from proxy.layers import Layer
from proxy.objectives import ObjectiveTable
from proxy.origin import BODY_USER
from proxy.roofline import Memory
from proxy.scouting import Scouting
from proxy.scrape import Scrape
from proxy.settings import SettingError
from proxy.sockets import listen
from proxy.supervisor import serve

LOOK_AGAIN = 0.05  # seconds between two looks whether the proxy is ready
TASK_QUIET = 3  # seconds: users of the demo think for one at the most
CANARY = 10  # seconds from one to the next
WINDOW = 10  # seconds that the live medians look back


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated engine, the upstream that it is, those who use it, and on what it would run."""

    upstream: str
    engine: EngineSettings
    crowd: Crowd
    dials: Layer


SIMULATIONS = (
    Simulation(
        "default",
        EngineSettings(
            models=("sim-8b",),
            ttft=0.06,
            rate=90,
            prefill_rate=16_000,
            concurrency_slowdown=0.06,
            context_slowdown=0.02,
            jitter=0.15,
            error_rate=0.02,
        ),
        Crowd("sim-8b", "", fewest=3, most=8, longest_answer=220),
        {
            "memory_bandwidth": Memory(2 * TB),
            "bytes_per_token": 16 * GB,
            "precision": "bf16",
            "hardware": "simulated",
            "engine": "tokometer engine",
        },
    ),
    Simulation(
        "large",
        EngineSettings(
            models=("sim-70b",),
            ttft=0.25,
            rate=30,
            prefill_rate=5_000,
            concurrency_slowdown=0.08,
            context_slowdown=0.02,
            jitter=0.15,
            stall=0.04,
            stall_seconds=2.5,
        ),
        Crowd("sim-70b", "/large", fewest=2, most=5, longest_answer=120),
        {
            "memory_bandwidth": Memory(2 * TB),
            "devices": 2,
            "bytes_per_token": 70 * GB,
            "precision": "fp8",
            "hardware": "simulated",
            "engine": "tokometer engine",
        },
    ),
    Simulation(
        "reasoning",
        EngineSettings(
            models=("sim-reasoner",),
            ttft=0.12,
            rate=55,
            prefill_rate=9_000,
            reasoning=60,
            concurrency_slowdown=0.07,
            tokens_per_chunk=3,
            jitter=0.15,
        ),
        Crowd("sim-reasoner", "/reasoning", fewest=1, most=3, longest_answer=260),
        {
            "memory_bandwidth": Memory(1 * TB),
            "active_parameters": 32e9,
            "bits_per_weight": 4.5,
            "precision": "Q4_K_M",
            "hardware": "simulated",
            "engine": "tokometer engine",
        },
    ),
)


def run(settings: DemoSettings) -> int:
    """Runs the demo; the exit code. Raises SettingError."""
    if settings.host.startswith(UNIX):
        raise SettingError("host: the demo has several ports: give an address, not a Unix socket")
    port = _port(settings.host, settings.port, DemoSettings.port)
    admin_port = _port(settings.host, settings.admin_port, DemoSettings.admin_port)
    with Programs() as programs:
        config = configured(
            [_engine(programs, one) for one in SIMULATIONS],
            host=settings.host,
            port=port,
            admin_host=settings.host,
            admin_port=admin_port,
        )
        programs.start("the proxy", partial(serve, config, programs.lifeline.end))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        demo = Demo(f"http://{host}:{port}", f"http://{host}:{admin_port}", programs.check)
        code = 0
        try:
            asyncio.run(demo.run(settings.seconds))
        except* Ended as ended:
            print(f"tokometer demo: {ended.exceptions[0]}", file=sys.stderr)
            code = 1
    return code


def configured(upstreams: Iterable[Upstream], **others: Any) -> Config:
    """The proxy's settings: what it can measure, it does."""
    return Config(
        arranged(tuple(upstreams)),
        drain_seconds=1,  # all traffic at the end is our own
        dials=DialTable(upstreams={one.upstream: one.dials for one in SIMULATIONS}),
        objectives=ObjectiveTable({"ttft": 0.5, "tokens_per_second": 20.0}),
        user_from=BODY_USER,
        task_quiet=TASK_QUIET,
        scouting={one.upstream: Scouting(canary_interval=CANARY) for one in SIMULATIONS},
        **others,
    )


def _port(host: str, port: int, usual: int) -> int:
    """`port`, but a free one where that is the usual one and busy."""
    try:
        with listen(host, port) as listener:
            return int(listener.getsockname()[1])
    except SettingError:
        if port != usual:
            raise
    with listen(host, 0) as listener:
        free = int(listener.getsockname()[1])
    print(f"port {port} is busy: taking {free} instead", flush=True)
    return free


def _engine(programs: Programs, simulation: Simulation) -> Upstream:
    """Starts an engine."""
    with listen("127.0.0.1", 0) as listener:
        port = int(listener.getsockname()[1])

        def follow_and_serve() -> None:
            programs.lifeline.follow()
            serve_engine(simulation.engine, listener)

        programs.start(f"engine {simulation.crowd.model}", follow_and_serve)
    prefix = simulation.crowd.path or "/"
    return Upstream(simulation.upstream, "http", "127.0.0.1", port, prefix=prefix)


class Demo:
    """Traffic through the proxy at `url`, and figures from its metrics at `admin_url`.

    `check` raises Ended if a process that is needed has ended.
    """

    def __init__(self, url: str, admin_url: str, check: Callable[[], None]) -> None:
        self._url = url
        self._admin_url = admin_url
        self._check = check
        # What the environment says of proxies is not about our own ports.
        self._client = httpx.Client(trust_env=False)
        self._stop = asyncio.Event()

    async def run(self, seconds: float | None) -> None:
        """Until a signal, or for so long. Raises Ended."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop.set)
        with self._client:
            await self._ready()
            if not self._stop.is_set():
                self._greet()
                await self._show(seconds)

    async def _ready(self) -> None:
        while not self._stop.is_set():
            self._check()
            with contextlib.suppress(httpx.TransportError):
                url = f"{self._admin_url}/readyz"
                if (await asyncio.to_thread(self._client.get, url)).is_success:
                    return
            await self._pause(LOOK_AGAIN)

    async def _pause(self, seconds: float) -> None:
        """Shorter if it is time to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    def _greet(self) -> None:
        body = (
            '{"model": "sim-8b", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
        )
        others = ", ".join(f"{one.crowd.path} ({one.crowd.model})" for one in SIMULATIONS[1:])
        print(
            f"proxy     {self._url}  (sim-8b; with prefix {others})\n"
            f"metrics   {self._admin_url}/metrics\n"
            f"try       curl -N {self._url}/v1/chat/completions -d '{body}'\n"
            "Ctrl-C ends it. Figures below are the proxy's own, from its metrics; medians are of "
            f"the last {WINDOW} s.",
            flush=True,
        )

    async def _show(self, seconds: float | None) -> None:
        """A line each second under traffic, and the table when it is over."""
        traffic = Traffic(self._url, [one.crowd for one in SIMULATIONS])
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(traffic.run())
            await self._watch(time.monotonic(), seconds or math.inf)
            last = await self._scrape()
            running.cancel()
        print("\n" + "\n".join(summary(last)), flush=True)

    async def _watch(self, start: float, seconds: float) -> None:
        scrapes = deque([await self._scrape()], WINDOW + 1)
        for second in itertools.count(1):
            await self._pause(start + min(second, seconds) - time.monotonic())
            if self._stop.is_set() or second > seconds:
                return
            self._check()
            scrapes.append(await self._scrape())
            line = live_line(scrapes[0], scrapes[-2], scrapes[-1])
            print(f"{second:4d} s  {line}", flush=True)

    async def _scrape(self) -> Scrape:
        return await asyncio.to_thread(self._scraped)

    def _scraped(self) -> Scrape:
        at = time.monotonic()
        return Scrape(self._client.get(f"{self._admin_url}/metrics").text, at)
