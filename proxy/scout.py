"""The scout: a process of its own that probes upstreams and sends canaries.

Neither the keeper nor a worker could do it: where a page of metrics is rendered the times of a
canary would not be the upstream's, and where chunks pass a probe must not cost time. There is one
scout, however many workers there are.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import cast

from proxy.canary import Canary
from proxy.channel import Probed, Record, Sung
from proxy.config import Config
from proxy.connection import Clock
from proxy.notices import place, say
from proxy.prober import Prober
from proxy.sender import Sender
from proxy.settings import SettingError
from proxy.tls import Certificates
from proxy.upstream import Transport

Once = Callable[[], Awaitable[Probed | Sung]]


class Scout:
    """Asks the upstreams of `config` and tells the keeper, whose channel is at `path`.

    Args:
        certificates: for upstreams with https.
        clock: monotonic seconds.
    """

    def __init__(self, config: Config, path: str, certificates: Certificates, clock: Clock) -> None:
        self._certificates = certificates
        self._told: dict[tuple[str, str], Record] = {}  # the last record by kind and upstream
        self._outlet = Sender(path, None, self._snapshot, lambda: None)
        self._transports: list[Transport] = []
        self._rounds: list[tuple[float, Once]] = []
        for upstream in config.upstreams:
            settings = config.scouting_of(upstream.name)
            own = certificates.context if upstream.scheme == "https" else None
            # No connection is kept: each is a try whether one can be had.
            transport = Transport(clock, 0.0, own, unix=upstream.socket)
            self._transports.append(transport)
            if settings.probe_interval is not None:
                prober = Prober(upstream, settings, transport, own, clock)
                self._rounds.append((settings.probe_interval, prober.probe))
            if settings.canary_interval is not None:
                canary = Canary(upstream, settings, transport, clock)
                self._rounds.append((settings.canary_interval, canary.sing))

    async def run(self) -> None:
        """Until SIGTERM; what is on its way then is given up."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        self._reload()  # until now SIGHUP was ignored
        self._outlet.start()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._repeat(*one)) for one in self._rounds]
            await stop.wait()
            for task in running:
                task.cancel()
        for transport in self._transports:
            await transport.aclose()
        await self._outlet.close()

    def _reload(self) -> None:
        try:
            self._certificates.reload()
        except SettingError as problem:
            say(f"the scout keeps the certificate that it has: {problem}")

    def _tell(self, record: Probed | Sung) -> None:
        key = record["kind"], record["upstream"]
        # Of a probe only some tell what the upstream is.
        self._told[key] = cast(Record, {**self._told.get(key, {}), **record})
        self._outlet.put(record)

    def _snapshot(self) -> list[Record]:
        return list(self._told.values())

    async def _repeat(self, seconds: float, once: Once) -> None:
        """Every so many seconds, one after the other."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + seconds
            try:
                self._tell(await once())
            except Exception as mistake:  # ours: others are asked all the same
                say(f"{place(mistake)}, please report")
            await asyncio.sleep(due - loop.time())
