"""Processes that the benchmark starts, and only those are ended, by their ids."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import accounting

_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.005


class StartError(Exception):
    """A process did not come up; says what it said last."""


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: Sequence[str], directory: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process from its start to its end; it writes to `directory`/log."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(env or {})},
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    family = list(accounting.tree(process.pid)) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def wait_until_answers(
    process: subprocess.Popen[bytes], port: int, path: str, limit: float, log: Path
) -> None:
    """Wait for a 200 to a GET. Raises: StartError."""
    until = time.monotonic() + limit
    while not _answers(port, path):
        if process.poll() is not None or time.monotonic() > until:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise StartError(" / ".join(last) or f"no answer within {limit:g} s")
        time.sleep(_POLL_SECONDS)


def _answers(port: int, path: str) -> bool:
    request = f"GET {path} HTTP/1.1\r\nHost: bench.local\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as sock:
            sock.sendall(request.encode())
            return sock.recv(64).startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))
    except OSError:
        return False
