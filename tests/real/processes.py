"""Servers started for the run: each in its own process group, each ended with it."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

STOP_SECONDS = 20.0  # to stop when asked, before it is killed
POLL_SECONDS = 0.1
LOG_TAIL = 30  # lines


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(
    command: Sequence[str | Path],
    ready: str,
    log: Path,
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Runs `command` inside the block, which is entered when the URL `ready` answers 200.

    `seconds` is how long that may take; what the server prints goes to `log`.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            # Not a session of its own: Linux schedules sessions against each other, and an engine
            # that keeps all processors busy then holds up the proxy for hundreds of milliseconds.
            process_group=0,
        )
    try:
        wait_until_ready(process, ready, log, seconds)
        yield
        if has_exited(process):
            raise SystemExit(f"a server exited during the run\n{tail(log)}")
    finally:
        end(process)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if has_exited(process):
            raise SystemExit(f"a server exited before it was ready\n{tail(log)}")
        with suppress(httpx.TransportError):
            if httpx.get(url, timeout=5.0).status_code == 200:
                return
        time.sleep(POLL_SECONDS)
    raise SystemExit(f"no answer of {url} after {seconds:.0f} s\n{tail(log)}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Asks the leader to stop, then kills what is left of its group.

    The leader is reaped last: until then its number, which is the group's too, can't pass to a
    process that is none of ours.
    """
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while not has_exited(process) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Like `poll`, but leaves the dead process to be reaped."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
    return "\n".join([f"end of {log}:", *lines])
