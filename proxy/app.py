"""Composition root: what a worker process and the keeper process are made of."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import uvicorn
import uvloop

from proxy.channel import Record
from proxy.config import ENVIRONMENT, Config
from proxy.descriptors import make_room
from proxy.greeting import is_loopback
from proxy.guard import Guard
from proxy.keeper import Keeper
from proxy.ledger import Ledger
from proxy.listener import ClientProtocol
from proxy.live import Follower
from proxy.notices import report, say
from proxy.origin import TRACEPARENT, Origins
from proxy.papers import Read
from proxy.relay import Relay, Rules
from proxy.routing import Way
from proxy.scout import Scout
from proxy.sender import Sender
from proxy.server import Server
from proxy.settings import SettingError
from proxy.tls import connecting, listening
from proxy.upstream import Transport

_LAG_SECONDS = 0.25
# A collection stops all streams for as long as it takes to look at what is new, a full one at
# everything. While streams begin nearly all of that lives: the young ones are small, 0.1 to 0.2
# ms, and since nothing of an exchange is left in a cycle the full one can be rare.
_COLLECT = (500, 1, 80_000)
# Longer than clients and load balancers keep idle connections: who closes first must be they, or
# a request meets the close on its way.
_CLIENT_KEEPALIVE_SECONDS = 75
# Where processors are scarce a chunk goes before a scrape.
_KEEPER_NICE = 5


def run_worker(
    read: Read, config: Config, slot: int, listener: socket.socket, channel_path: str
) -> None:
    """Carry the traffic of one socket until SIGTERM, then let running streams end.

    `read`, here and below, gives the certificates and tokens that count.
    """
    make_room()
    gc.set_threshold(*_COLLECT)
    uvloop.run(Worker(read, config, slot, channel_path).run(listener))


def run_keeper(read: Read, config: Config, admin: socket.socket, channel: socket.socket) -> None:
    """Make metrics and the request log of what workers tell until SIGTERM.

    Raises: SettingError where buckets or the request log's path will not do.
    """
    exporter = _exporter(config)
    try:
        keeper = Keeper(
            upstreams=[upstream.name for upstream in config.upstreams],
            max_models=config.max_models,
            stall_seconds=config.stall_seconds,
            buckets=config.buckets,
            log_path=config.log_requests,
            max_users=config.max_users if config.user_from else None,
            task_key=_task_key(config),
            task_quiet=config.task_quiet,
            exporter=exporter,
            dials=config.dials,
            objectives=config.objectives,
        )
    except ValueError as problem:
        raise SettingError(f"buckets: {problem}") from None
    os.nice(_KEEPER_NICE)
    guard = Guard(read, is_loopback(config.admin_host))
    uvloop.run(keeper.serve(admin, channel, guard))


def _exporter(config: Config) -> Follower | None:
    """What sends measurements to OpenTelemetry's collector. What it needs is an extra."""
    if config.otlp_endpoint is None:
        return None
    try:
        from proxy.otlp import Collector
    except ImportError as problem:
        raise SettingError(
            f"otlp_endpoint: OpenTelemetry is missing ({problem}): pip install tokometer[otel]"
        ) from None
    endpoint = None if config.otlp_endpoint == ENVIRONMENT else config.otlp_endpoint
    try:
        return Collector(endpoint).telemetry(config.upstreams)
    except (ValueError, OSError) as problem:
        text = " ".join(str(problem).split())
        raise SettingError(f"otlp_endpoint: a variable OTEL_... will not do: {text}") from None


def _task_key(config: Config) -> Literal["trace_id", "task"] | None:
    if config.task_from is None:
        return None
    return "trace_id" if config.task_from == TRACEPARENT else "task"


def run_scout(read: Read, config: Config, channel_path: str) -> None:
    """Probe upstreams and send canaries until SIGTERM."""
    certificates = connecting(read, config.upstream_insecure)
    uvloop.run(Scout(config, channel_path, certificates, time.monotonic).run())


class Worker:
    """One process of traffic."""

    def __init__(self, read: Read, config: Config, slot: int, channel_path: str) -> None:
        self._ledger = Ledger(partial(self._sender, channel_path, slot), config.stall_seconds)
        self._slot = slot
        self._upstreams = connecting(read, config.upstream_insecure)
        self._clients = listening(read) if config.tls_cert else None
        self._ways = [
            Way(
                upstream,
                Transport(
                    time.monotonic,
                    config.upstream_keepalive,
                    self._upstreams.context if upstream.scheme == "https" else None,
                    partial(self._ledger.connected, upstream.name),
                    upstream.socket,
                ),
            )
            for upstream in config.upstreams
        ]
        wall = time.time  # noqa: TID251  # for people, in the request log
        self._relay = Relay(self._ways, rules(config), self._ledger, time.monotonic, wall)
        self._server = Server(
            _uvicorn(config, self._relay),
            self._relay,
            self._clients.context if self._clients else None,
            config.drain_seconds,
            config.reuse_port,
        )

    def _sender(
        self,
        path: str,
        slot: int,
        collect: Callable[[], float | None],
        snapshot: Callable[[], list[Record]],
    ) -> Sender:
        self._outlet = Sender(path, slot, snapshot, collect)
        return self._outlet

    async def run(self, listener: socket.socket) -> None:
        """Serve until `stop`."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(report)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop)
        loop.add_signal_handler(signal.SIGQUIT, self.hurry)
        # To read all authorities of a system would stop every stream for 50 ms.
        beside = ThreadPoolExecutor(1, "certificates")
        loop.add_signal_handler(signal.SIGHUP, beside.submit, self.reload)
        self.reload()  # until now SIGHUP was ignored
        self._outlet.start()
        lag = Lag(loop, self._ledger.lag)
        try:
            await self._server.serve(listener)
        finally:
            lag.stop()
            for way in self._ways:
                await way.transport.aclose()
            await self._outlet.close()
            beside.shutdown(wait=False)

    def stop(self) -> None:
        """Take nothing new; end when what is running has ended."""
        self._outlet.drain()
        self._server.stop()

    def hurry(self) -> None:
        """Cut what is running, tell of it, and end."""
        self._outlet.drain()
        self._server.hurry()

    def reload(self) -> None:
        """Take the certificates that count now; where that fails the old ones stay."""
        for certificates in (self._clients, self._upstreams):
            try:
                if certificates is not None:
                    certificates.reload()
            except SettingError as problem:
                say(f"worker {self._slot} keeps the certificate that it has: {problem}")


class Lag:
    """Measures how late the event loop is: the proxy's own share of every delay."""

    def __init__(self, loop: asyncio.AbstractEventLoop, note: Callable[[float], None]) -> None:
        self._loop = loop
        self._note = note
        self._arm()

    def _arm(self) -> None:
        self._due = time.monotonic() + _LAG_SECONDS
        self._timer = self._loop.call_later(_LAG_SECONDS, self._tick)

    def _tick(self) -> None:
        self._note(max(0.0, time.monotonic() - self._due))
        self._arm()

    def stop(self) -> None:
        """Measure no more."""
        self._timer.cancel()


def rules(config: Config) -> Rules:
    """The relay's share of the settings."""
    return Rules(
        inject_usage=config.usage == "inject",
        preserve_host=config.preserve_host,
        max_inspect_bytes=config.max_inspect_bytes,
        connect_timeout=config.connect_timeout,
        idle_timeout=config.idle_timeout,
        stall_seconds=config.stall_seconds,
        origins=Origins(config.user_from, config.task_from, config.user_secret),
    )


def _uvicorn(config: Config, relay: Relay) -> uvicorn.Config:
    given = {
        "clock": staticmethod(time.monotonic),
        "patience": config.client_timeout,
        "send_limit": config.send_timeout,
        "refused": staticmethod(relay.refused),
    }
    protocol = type("WorkerProtocol", (ClientProtocol,), given)
    return uvicorn.Config(
        relay,
        http=protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        loop="none",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_level="critical",
        timeout_keep_alive=_CLIENT_KEEPALIVE_SECONDS,
    )
