"""Composition root: what a worker process and the keeper process are made of."""

import asyncio
import contextlib
import gc
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from functools import partial

import uvicorn
import uvloop

from proxy.address import Upstream
from proxy.channel import Sender
from proxy.config import Config
from proxy.ledger import Ledger
from proxy.listener import ClientProtocol
from proxy.relay import Relay, Rules, Way
from proxy.upstream import Transport

_LAG_SECONDS = 0.5
_FLUSH_SECONDS = 2.0


def run_worker(config: Config, slot: int, listener: socket.socket, channel_path: str) -> None:
    """Carry traffic of one socket until SIGTERM; running streams may end within the drain time."""
    uvloop.run(_work(config, slot, listener, channel_path))


async def _work(config: Config, slot: int, listener: socket.socket, channel_path: str) -> None:
    sender: Sender | None = None
    ...


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
