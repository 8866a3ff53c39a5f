"""The workers' end of the channel: records to the keeper, in batches, never awaited."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import orjson

from proxy.channel import LENGTH_BYTES, Dropped, Record, State

_MAX_RECORD_BYTES = 256 << 10
_BATCH_BYTES = 256 << 10  # and one record more at most: less than MAX_BATCH_BYTES
_MAX_WAITING_BYTES = 8 << 20  # for a connection, or for the transport to take more
_MAX_TRANSPORT_BYTES = 8 << 20  # given to the transport, and not yet taken by the keeper
_FLUSH_SECONDS = 0.25
# To send wakes the keeper: what is collected in turns that follow each other soon goes together.
_TOGETHER_RECORDS = 40
_TOGETHER_SECONDS = 0.01
_MAX_PAUSE_SECONDS = 0.5


class Sender(asyncio.Protocol):
    """A worker's end of the channel; connects, and connects again, by itself.

    What a connection carries: the worker's state; the snapshot; then records as they come. When
    the keeper takes nothing, a bounded number of records waits and the rest is let go. A `dropped`
    record and the snapshot then tell the keeper what it missed and what is in flight.

    Args:
        path: of the keeper's Unix socket.
        worker: the worker's slot; None for a process that carries no traffic and has no state.
        snapshot: a begin for each exchange that is in flight.
        collect: called just before records are sent, to put those that are only made then; gives
            the seconds until it wants to be called again, None for when there is something.
    """

    def __init__(
        self,
        path: str,
        worker: int | None,
        snapshot: Callable[[], list[Record]],
        collect: Callable[[], float | None],
    ) -> None:
        self._path = path
        self._states: list[State] = []
        if worker is not None:
            pid = os.getpid()
            self._states = [{"kind": "state", "worker": worker, "pid": pid, "state": "ready"}]
        self._snapshot = snapshot
        self._collect = collect
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._paused = self._closing = False

    def start(self) -> None:
        """Connect; called once, in the event loop that it then lives in."""
        self._loop = asyncio.get_running_loop()
        self._connecting = self._loop.create_task(self._connect(0.0))

    def put(self, record: Record) -> None:
        """Send this record soon, or let it go. Never waits, never raises."""
        data = _encoded(record)
        room = _MAX_WAITING_BYTES - self._waiting_bytes
        if data is None or len(data) > room:
            self._dropped += 1
        else:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        self.wake()

    def wake(self) -> None:
        """Something can be collected: send soon."""
        if self._timer is None:
            self._timer = self._loop.call_later(_FLUSH_SECONDS, self._flush)

    def drain(self) -> None:
        """The worker takes no new connections any more."""
        for state in self._states:
            state["state"] = "draining"
            self.put(state)

    async def close(self, seconds: float = 1.0) -> None:
        """Send what is left and disconnect, in this time or not at all."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connected.wait()
                self._paused = False
                self._flush()
                if self._transport is not None:
                    self._transport.close()
                await self._lost.wait()
        if self._transport is not None:
            self._transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)

    async def _connect(self, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            try:
                await self._loop.create_unix_connection(lambda: self, self._path)
                return
            except OSError:
                pause = min(2 * pause + 0.01, _MAX_PAUSE_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by their type
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_MAX_TRANSPORT_BYTES)
        self._paused = False
        self._write([*self._states, *self._snapshot()])
        self._connected.set()
        self._lost.clear()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connected.clear()
        self._lost.set()
        if not self._closing:
            self._connecting = self._loop.create_task(self._connect(0.05))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def _flush(self) -> None:
        again = None
        try:
            again = self._collect()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(again, self._flush) if again else None
        more_soon = again is not None and again < _TOGETHER_SECONDS and not self._closing
        if more_soon and len(self._waiting) < _TOGETHER_RECORDS:
            return
        if self._transport is not None and not self._paused:
            self._send()

    def _send(self) -> None:
        records, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for batch in _batches(records):
            self._transmit(batch)
        if self._dropped:
            self._write(self._confession())

    def _confession(self) -> list[Record]:
        """What was let go, and what is in flight now that the keeper may know nothing of."""
        begun = self._snapshot()
        in_flight = [record["id"] for record in begun if record["kind"] == "begin"]
        dropped: Dropped
        dropped = {"kind": "dropped", "records": self._dropped, "in_flight": in_flight}
        self._dropped = 0
        return [dropped, *begun]

    def _write(self, records: list[Record]) -> None:
        encoded = (_encoded(record) for record in records)
        for batch in _batches(data for data in encoded if data is not None):
            self._transmit(batch)

    def _transmit(self, batch: bytes) -> None:
        assert self._transport is not None
        self._transport.write(len(batch).to_bytes(LENGTH_BYTES, "big") + batch)


def _encoded(record: Record) -> bytes | None:
    """Its JSON, if it is fit to be sent."""
    try:
        data = orjson.dumps(record)
    except orjson.JSONEncodeError:
        return None
    return data if len(data) <= _MAX_RECORD_BYTES else None


def _batches(records: Iterable[bytes]) -> Iterator[bytes]:
    """JSON arrays of these objects, each of not much more than `_BATCH_BYTES`."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record)
        if size > _BATCH_BYTES:
            yield b"[" + b",".join(batch) + b"]"
            batch, size = [], 0
    if batch:
        yield b"[" + b",".join(batch) + b"]"
