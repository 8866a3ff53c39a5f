"""A proxy under test, running: where it listens and what it costs."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import uvloop

from . import accounting, process
from .load import StreamLoad, run_streams
from .peers import ROOT, SCRATCH, Peer, Ports

Sample = dict[str, float]  # one measurement: names with their units, and figures

_MODELS = "/v1/models"
_SETTLE_SECONDS = 0.3
_WARM = StreamLoad(4, 20, window=0.2, ramp=0.1)


@dataclass(frozen=True)
class Site:
    """What is measured; `pid` is None for the upstream without a proxy."""

    name: str
    port: int
    upstream_pid: int
    pid: int | None = None
    admin: int = 0
    directory: Path = SCRATCH
    ready_seconds: float | None = None
    idle: accounting.Memory = accounting.NONE


class Costs(NamedTuple):
    """Processor seconds since the start of each, and of everything on the host."""

    proxy: float
    scheduled: float  # the proxy's too, finer
    upstream: float
    load: float
    host: float


def costs(site: Site) -> Costs:
    """What has been spent up to now."""
    return Costs(
        accounting.processor_seconds(site.pid) if site.pid else 0.0,
        accounting.scheduled_seconds(site.pid) if site.pid else 0.0,
        accounting.processor_seconds(site.upstream_pid),
        time.process_time(),
        accounting.host_seconds(),
    )


def shares(before: Costs, after: Costs, count: int, seconds: float, unit: str) -> Sample:
    """Microseconds of processor time for each of `count` things, and what disturbed them."""
    spent = Costs(*(b - a for a, b in zip(before, after, strict=True)))
    each = 1e6 / max(1, count)
    return {
        f"cpu_us_per_{unit}": spent.proxy * each,
        f"cpu_us_per_{unit}_scheduled": spent.scheduled * each,
        f"cpu_us_per_{unit}_resolution": accounting.TICK_SECONDS * each,
        f"upstream_us_per_{unit}": spent.upstream * each,
        f"load_us_per_{unit}": spent.load * each,
        "others_share": others_share(before, after, seconds),
    }


def others_share(before: Costs, after: Costs, seconds: float) -> float:
    """How much of the host's processors went to what is not measured."""
    spent = Costs(*(b - a for a, b in zip(before, after, strict=True)))
    others = spent.host - spent.proxy - spent.upstream - spent.load
    return max(0.0, others) / seconds / (os.cpu_count() or 1)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one process, gone afterwards."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        yield Path(name)


@contextlib.contextmanager
def direct() -> Iterator[Site]:
    """The scripted upstream."""
    port = process.free_port()
    command = [sys.executable, "-m", "tests.bench.upstream", str(port)]
    env = {"PYTHONPATH": str(ROOT)}
    with scratch() as directory, process.running(command, directory, env) as upstream:
        process.wait_until_answers(upstream, port, _MODELS, 20.0, directory / "log")
        yield Site("direct", port, upstream.pid)


@contextlib.contextmanager
def through(peer: Peer, upstream: Site) -> Iterator[Site]:
    """A proxy in front of the upstream, ready. Raises: process.StartError."""
    ports = Ports(upstream.port, process.free_port(), process.free_port())
    with scratch() as directory:
        command = peer.command(directory, ports)
        began = time.monotonic()
        with process.running(command, directory, peer.env) as proxy:
            log = directory / "log"
            process.wait_until_answers(proxy, ports.proxy, _MODELS, peer.start_seconds, log)
            ready = time.monotonic() - began
            uvloop.run(run_streams(ports.proxy, _WARM, lambda: None))
            time.sleep(_SETTLE_SECONDS)
            yield Site(
                peer.name,
                ports.proxy,
                upstream.upstream_pid,
                proxy.pid,
                ports.admin,
                directory,
                ready,
                accounting.memory(proxy.pid),
            )
