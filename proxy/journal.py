"""The request log: one JSON object a line for each exchange that ended."""

import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import orjson

from proxy.channel import End

STDOUT = "-"
# Of an end these are told as they are, in this order; `time`, `concurrency` are made here.
_KEYS = (
    "request_id",
    "trace_id",
    "upstream",
    "model",
    "api",
    "stream",
    "outcome",
    "code",
    "ttft_seconds",
    "ttfv_seconds",
    "decode_tokens_per_second",
    "duration_seconds",
    "client_wait_seconds",
    "prompt_tokens",
    "cached_prompt_tokens",
    "output_tokens",
    "reasoning_tokens",
    "token_source",
    "chunks",
    "max_gap_seconds",
    "stalls",
    "concurrency",
    "context",
    "engine",
    "finish_reason",
)
_MAX_WAITING_BYTES = 8 << 20
# Readable by a group, as other logs are: it holds times and counts, no text and no key.
_MODE = 0o640


def line(record: End, concurrency: int | None) -> dict[str, Any]:
    """What the request log says of an exchange; keys whose value is unknown are absent.

    `time` is RFC 3339 in UTC. Seconds and rates are rounded to six places.
    """
    values: dict[str, Any] = {**record, "concurrency": concurrency}
    told: dict[str, Any] = {}
    if (wall := record.get("time")) is not None:
        text = datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds")
        told["time"] = text.replace("+00:00", "Z")
    for key in _KEYS:
        value = values.get(key)
        if value is not None:
            told[key] = round(value, 6) if isinstance(value, float) else value
    return told


class Journal:
    """Appends lines to a file or, for `-`, to standard output; never waits for it, never fails.

    A thread of its own writes, because a full pipe or a slow disk would stop the event loop.
    Lines that cannot be written are counted in `lost`; one line on standard error says so each time
    that this begins. A line of which only a part could be written is left as it is.

    Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: str, complain: Callable[[str], object] | None = None) -> None:
        self.lost = 0  # lines
        self._path = path
        self._complain = complain or _to_stderr
        self._fd = _open(path)
        self._failing = self._torn = False
        self._lines: list[bytes] = []
        self._waiting = 0  # bytes given to the writer and not yet taken
        self._lock = threading.Lock()
        self._orders: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._work, name="request log", daemon=True)
        self._writer.start()

    def add(self, record: End, concurrency: int | None) -> None:
        """An exchange has ended; `concurrency` is that at its arrival. Written with `flush`."""
        self._lines.append(orjson.dumps(line(record, concurrency), option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Write what was added, in one piece."""
        if not self._lines:
            return
        batch, self._lines = b"".join(self._lines), []
        with self._lock:
            full = self._waiting + len(batch) > _MAX_WAITING_BYTES
            if not full:
                self._waiting += len(batch)
        if full:
            self._lose(batch, "it is not taken")
        else:
            self._orders.put(batch)
