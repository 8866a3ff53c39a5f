"""The keeper's end of the channel: batches of records from every worker."""

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Any, cast

import orjson

from proxy.channel import LENGTH_BYTES, MAX_BATCH_BYTES

OnBatch = Callable[[int, list[dict[str, Any]]], None]
OnLost = Callable[[int], None]


class Receiver:
    """Serves a listening Unix socket.

    Args:
        on_batch: called with the number of the connection and a batch of records (not checked
            beyond being JSON objects).
        on_lost: called with the number of a connection that ended, whatever the reason, except
            for `close`.
    """

    def __init__(self, on_batch: OnBatch, on_lost: OnLost) -> None:
        self.on_batch = on_batch
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._closing = False
        self.reads = 0

    async def start(self, listening: socket.socket) -> None:
        """Take connections from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, sock=listening)

    async def drain(self, quiet_seconds: float = 0.1, limit_seconds: float = 2.0) -> None:
        """Go on until nobody is there any more, and nothing has come for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_seconds
        seen = -1
        while (self._connections or seen != self.reads) and loop.time() < deadline:
            seen = self.reads
            await asyncio.sleep(quiet_seconds)

    def close(self) -> None:
        """Take nothing more. What is in flight in the workers goes on there."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.drop()

    def _accept(self) -> "_Connection":
        return _Connection(self, next(self._numbers))

    def connected(self, connection: "_Connection") -> None:
        """A worker has come."""
        self._connections.add(connection)

    def lost(self, connection: "_Connection") -> None:
        """A worker is gone."""
        self._connections.discard(connection)
        if not self._closing:
            self._on_lost(connection.number)


class _Connection(asyncio.Protocol):
    """Batches out of bytes; a connection that sends anything else is dropped."""

    def __init__(self, receiver: Receiver, number: int) -> None:
        self.number = number
        self._receiver = receiver
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._receiver.connected(self)

    def data_received(self, data: bytes) -> None:
        self._receiver.reads += 1
        self._buffer += data
        while (size := self._size()) is not None:
            batch = _records(self._buffer[LENGTH_BYTES : LENGTH_BYTES + size])
            del self._buffer[: LENGTH_BYTES + size]
            if batch is None:
                self.drop()
            else:
                self._receiver.on_batch(self.number, batch)

    def _size(self) -> int | None:
        """Length of the batch at the front, if all of it is there."""
        if len(self._buffer) < LENGTH_BYTES:
            return None
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if size > MAX_BATCH_BYTES:
            self.drop()
            return None
        return size if len(self._buffer) >= LENGTH_BYTES + size else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.lost(self)

    def drop(self) -> None:
        """End the connection now."""
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()


def _records(data: bytearray) -> list[dict[str, Any]] | None:
    try:
        batch = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if isinstance(batch, list) and all(isinstance(record, dict) for record in batch):
        return batch
    return None
