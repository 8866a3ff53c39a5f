"""Composition root: what a worker process and the keeper process are made of."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
import uvloop

from proxy.channel import Record
from proxy.config import Config
from proxy.descriptors import make_room
from proxy.keeper import Keeper
from proxy.ledger import Ledger
from proxy.listener import ClientProtocol
from proxy.relay import Relay, Rules
from proxy.routing import Way
from proxy.sender import Sender
from proxy.settings import SettingError
from proxy.upstream import Transport

_LAG_SECONDS = 0.25
# A full collection stops all streams for as long as it takes to look at everything that all of
# them hold. Nothing of an exchange is left in a cycle, so that it can be rare.
_COLLECT = (20_000, 20, 200)
# Longer than clients and load balancers keep idle connections: who closes first must be they, or
# a request meets the close on its way.
_CLIENT_KEEPALIVE_SECONDS = 75
# Where processors are scarce a chunk goes before a scrape.
_KEEPER_NICE = 5
# What an exchange that was cut has to say shall still arrive.
_LAST_WORDS_SECONDS = 2.0


def run_worker(config: Config, slot: int, listener: socket.socket, channel_path: str) -> None:
    """Carry the traffic of one socket until SIGTERM, then let running streams end."""
    make_room()
    gc.set_threshold(*_COLLECT)
    uvloop.run(Worker(config, slot, channel_path).run(listener))


def run_keeper(config: Config, admin: socket.socket, channel: socket.socket) -> None:
    """Make metrics and the request log of what workers tell until SIGTERM.

    Raises: SettingError where buckets or the request log's path will not do.
    """
    try:
        keeper = Keeper(
            upstreams=[upstream.name for upstream in config.upstreams],
            max_models=config.max_models,
            stall_seconds=config.stall_seconds,
            buckets=config.buckets,
            log_path=config.log_requests,
        )
    except ValueError as problem:
        raise SettingError(f"buckets: {problem}") from None
    except OSError as problem:
        raise SettingError(
            f"log_requests: cannot write {config.log_requests}: {problem.strerror}"
        ) from None
    os.nice(_KEEPER_NICE)
    uvloop.run(keeper.serve(admin, channel))


class Worker:
    """One process of traffic."""

    def __init__(self, config: Config, slot: int, channel_path: str) -> None:
        self._config = config
        self._ledger = Ledger(partial(self._sender, channel_path, slot))
        tls = _tls(config)
        self._ways = [
            Way(
                upstream,
                Transport(
                    time.monotonic,
                    config.upstream_keepalive,
                    tls if upstream.scheme == "https" else None,
                    partial(self._ledger.connected, upstream.name),
                ),
            )
            for upstream in config.upstreams
        ]
        wall = time.time  # noqa: TID251  # for people, in the request log
        self._relay = Relay(self._ways, rules(config), self._ledger, time.monotonic, wall)
        self._server = Server(_uvicorn(config, self._relay))

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
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop)
        self._outlet.start()
        lag = Lag(loop, self._ledger.lag)
        try:
            await self._server.serve(sockets=[listener])
            if cut := self._server.server_state.tasks:
                await asyncio.wait(cut, timeout=_LAST_WORDS_SECONDS)
        finally:
            lag.stop()
            for way in self._ways:
                await way.transport.aclose()
            await self._outlet.close()

    def stop(self) -> None:
        """Take nothing new; end when what is running has ended."""
        self._relay.draining = True
        self._outlet.drain()
        self._server.should_exit = True


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: it would end the process before we are done."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the worker's."""
        yield


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
    )


def _tls(config: Config) -> ssl.SSLContext:
    """The system's trust, and that of `--upstream-ca` where it is given."""
    context = ssl.create_default_context()
    if config.upstream_ca is not None:
        context.load_verify_locations(config.upstream_ca)
    return context


def _uvicorn(config: Config, relay: Relay) -> uvicorn.Config:
    given = {
        "clock": staticmethod(time.monotonic),
        "patience": config.client_timeout,
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
        timeout_graceful_shutdown=config.drain_seconds,  # type: ignore[arg-type]  # any number
    )
