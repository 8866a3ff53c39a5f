"""The request log: one JSON object a line for each exchange that ended."""

import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from typing import Any

import orjson

from proxy.channel import End, Refused
from proxy.notices import place, say

STDOUT = "-"
# What is told of an end as it is.
_TOLD = {
    *("request_id", "trace_id", "upstream", "model", "api", "stream", "outcome", "code"),
    *("ttft_seconds", "ttfv_seconds", "decode_tokens_per_second", "duration_seconds"),
    *("client_wait_seconds", "prompt_tokens", "cached_prompt_tokens", "output_tokens"),
    *("reasoning_tokens", "token_source", "chunks", "max_gap_seconds", "stalls", "context"),
    *("engine", "finish_reason", "error", "received_bytes", "sent_bytes"),
}
_MAX_WAITING_BYTES = 8 << 20
# Readable by a group, as other logs are: it holds times and counts, no text and no key.
_MODE = 0o640


def line(
    record: End | Refused, concurrency: int | None, decode_concurrency: float | None = None
) -> dict[str, Any]:
    """What the request log says of an exchange; a key whose value is unknown is absent.

    `time` is RFC 3339 in UTC, the other values are the record's own.

    Args:
        concurrency: streams in flight at its arrival.
        decode_concurrency: their mean over its decode phase.
    """
    told: dict[str, Any] = {}
    if (wall := record.get("time")) is not None:
        text = datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds")
        told["time"] = text.removesuffix("+00:00") + "Z"
    if concurrency is not None:
        told["concurrency"] = concurrency
    if decode_concurrency is not None:
        told["decode_concurrency"] = round(decode_concurrency, 2)
    return told | {
        key: value for key, value in record.items() if key in _TOLD and value is not None
    }


class Journal:
    """Appends lines to a file or, for `-`, to standard output; never waits for it, never fails.

    A thread of its own writes, because a full pipe or a slow disk would stop the event loop.
    Lines that cannot be written are counted in `lost`; one line on standard error says so each time
    that this begins. A line of which only a part could be written is left as it is. A file that
    cannot be opened, or a pipe that nobody reads yet, is tried again with each piece.
    """

    def __init__(
        self,
        path: str,
        complain: Callable[[str], object] | None = None,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self._path = path
        self._complain = complain or say
        self._put = write
        self._lines: list[bytes] = []
        # Bytes and lines; each is counted by one thread only.
        self._given = self._taken = 0
        self._refused = self._unwritten = 0
        self._failing = self._torn = False
        self._fd: int | None = None
        self._replace()
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._work, name="request log", daemon=True)
        self._writer.start()

    @property
    def lost(self) -> int:
        """Lines that could not be written so far."""
        return self._refused + self._unwritten

    def add(
        self,
        record: End | Refused,
        concurrency: int | None,
        decode_concurrency: float | None = None,
    ) -> None:
        """An exchange has ended, with these streams beside it (see `line`): for `flush`."""
        told = line(record, concurrency, decode_concurrency)
        self._lines.append(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Write what was added, in one piece."""
        if not self._lines:
            return
        batch, lines = b"".join(self._lines), len(self._lines)
        self._lines.clear()
        if self._given - self._taken + len(batch) > _MAX_WAITING_BYTES:
            self._refused += lines
            self._fails("it does not take them")
        else:
            self._given += len(batch)
            self._orders.put(partial(self._write, batch))

    def reopen(self) -> None:
        """Open the file anew, as after it was rotated; the old one stays if that fails."""
        if self._path != STDOUT:
            self._orders.put(self._replace)

    def close(self, seconds: float = 2.0) -> None:
        """Write what is left, if that takes no longer than this."""
        self.flush()
        self._orders.put(None)
        self._writer.join(seconds)

    def _work(self) -> None:
        for order in iter(self._orders.get, None):
            try:
                order()
            except Exception as mistake:  # ours; the next lines are written all the same
                self._complain(f"request log {self._path}: {place(mistake)}, please report")
        if self._path != STDOUT and self._fd is not None:
            os.close(self._fd)

    def _write(self, batch: bytes) -> None:
        start = b"\n" if self._torn else b""
        data, written = start + batch, 0
        try:
            if self._fd is None:
                self._fd = _open(self._path)
            while written < len(data):
                written += self._put(self._fd, data[written:])
        except OSError as error:
            self._unwritten += batch.count(b"\n", max(0, written - len(start)))
            self._torn = data[written - 1] != ord("\n") if written else self._torn
            self._fails(error.strerror or "cannot be written")
        else:
            self._torn = self._failing = False
        self._taken += len(batch)

    def _replace(self) -> None:
        try:
            fd = _open(self._path)
        except OSError as error:
            if self._fd is None:
                self._fails(error.strerror or "cannot be opened")
            else:
                self._complain(f"request log {self._path}: not opened again: {error.strerror}")
            return
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._torn = fd, False

    def _fails(self, why: str) -> None:
        if not self._failing:
            self._failing = True
            self._complain(f"request log {self._path}: {why}: lines are lost until that changes")


def _open(path: str) -> int:
    if path == STDOUT:
        return sys.stdout.fileno()
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    fd = os.open(path, how | os.O_NONBLOCK, _MODE)  # else it waits for who reads a pipe
    os.set_blocking(fd, True)
    return fd
