"""Large bodies, from the upstream and to it."""

import asyncio
import time
from typing import cast

import uvloop

from . import accounting
from .site import Sample, Site, costs, others_share

_BLOCK = bytes(256 << 10)
_HIGH_WATER = 1 << 20
_LOOK_SECONDS = 0.05
_LIMIT_SECONDS = 120.0


class Download(asyncio.BufferedProtocol):
    """Takes an answer of a known size."""

    def __init__(self, size: int) -> None:
        self._buffer = bytearray(256 << 10)
        self._size = size
        self._head = b""
        self._left: int | None = None
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = b"GET /blob/%d HTTP/1.1\r\nHost: bench.local\r\n\r\n" % self._size
        cast(asyncio.Transport, transport).write(request)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._left is None:
            self._head += self._buffer[:nbytes]
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 200 " not in head.partition(b"\r\n")[0]:
                self._finish(False)
                return
            self._left, nbytes = self._size, len(body)
        self._left -= nbytes
        if self._left <= 0:
            self._finish(self._left == 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(False)

    def _finish(self, whole: bool) -> None:
        if not self.done.done():
            self.done.set_result(whole)


class Upload(asyncio.Protocol):
    """Sends a request of a known size; the upstream tells how much of it came."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._paused = False
        self._answer = b""
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_HIGH_WATER)
        self._transport.write(
            b"POST /sink HTTP/1.1\r\nHost: bench.local\r\n"
            b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % self._size
        )
        self.resume_writing()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        while self._left and not self._paused:
            block = _BLOCK[: min(self._left, len(_BLOCK))]
            self._left -= len(block)
            self._transport.write(block)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._answer.endswith(b"}"):
            self._finish(self._answer.endswith(b'{"bytes":%d}' % self._size))

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(False)

    def _finish(self, whole: bool) -> None:
        if not self.done.done():
            self.done.set_result(whole)


async def _move(site: Site, body: type[Download | Upload], size: int) -> tuple[bool, int]:
    """Whether all of it arrived, and the most memory that was resident meanwhile."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(lambda: body(size), "127.0.0.1", site.port)
    peak = 0
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            while not protocol.done.done():
                await asyncio.wait([protocol.done], timeout=_LOOK_SECONDS)
                if site.pid:
                    peak = max(peak, accounting.memory(site.pid).resident)
            return protocol.done.result(), peak
    except TimeoutError:
        return False, peak
    finally:
        transport.abort()


def measure_body(site: Site, body: type[Download | Upload], size: int) -> Sample:
    """One body of `size` bytes one way. Memory in MiB over that at the start."""
    idle = accounting.memory(site.pid).resident if site.pid else 0
    before, began = costs(site), time.monotonic()
    whole, peak = uvloop.run(_move(site, body, size))
    seconds, after = time.monotonic() - began, costs(site)
    sample = {"failed": float(not whole), "others_share": others_share(before, after, seconds)}
    if whole:
        sample["mb_per_second"] = size / 1e6 / seconds
        sample["cpu_seconds_per_gb"] = (after.proxy - before.proxy) / size * 1e9
        sample["memory_growth_mib"] = (peak - idle) / 2**20 if site.pid else 0.0
    return sample
