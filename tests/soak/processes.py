"""`tokometer serve` and what its processes hold."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from proxy.scrape import Scrape

PATIENCE = 60.0  # seconds
KEEPALIVE = 0.5  # seconds that the proxy keeps a connection to its upstream
READY = re.compile(r"http://127\.0\.0\.1:(\d+) -> .*/127\.0\.0\.1:(\d+)/metrics")


class Level(NamedTuple):
    """What a process holds: resident memory in KiB, open descriptors."""

    memory: int
    descriptors: int


class Proxy:
    """A proxy with one worker before two upstreams: a live one, and one that nobody serves."""

    def __init__(self, port: int, dead: int, folder: Path, idle_timeout: float) -> None:
        self.log = folder / "log"
        settings = folder / "tokometer.toml"
        settings.write_text(
            f'upstream = "http://127.0.0.1:{port}"\n'
            f'upstreams.dead = {{ url = "http://127.0.0.1:{dead}", prefix = "/dead" }}\n'
        )
        arguments = [f"--config={settings}", f"--log-requests={self.log}"]
        arguments += ["--port=0", "--admin-port=0", f"--idle-timeout={idle_timeout}"]
        arguments += [f"--upstream-keepalive={KEEPALIVE}"]
        self._said = (folder / "said").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", *arguments], stderr=self._said
        )
        eventually(lambda: READY.search(self.said()) is not None)
        found = READY.search(self.said())
        assert found is not None
        self.port, self._admin = int(found[1]), int(found[2])

    def said(self) -> str:
        """All of its standard error."""
        return Path(self._said.name).read_text("utf-8")

    def scrape(self) -> Scrape:
        """Its metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}/metrics") as answer:
            return Scrape(answer.read().decode(), 0)

    def turned(self) -> Path:
        """The log so far; from now on it writes another."""
        old = self.log.with_suffix(".old")
        self.log.rename(old)
        self._process.send_signal(signal.SIGHUP)
        eventually(self.log.exists)
        return old

    def levels(self) -> dict[str, Level]:
        """By the titles of its processes."""
        parent = self._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return dict(_level(pid) for pid in (str(parent), *children))

    def end(self) -> int:
        """Tell it to end; its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._said.close()


def _level(pid: str) -> tuple[str, Level]:
    title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()
    status = Path(f"/proc/{pid}/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident is not None
    return title.removeprefix("tokometer: "), Level(
        int(resident[1]), len(os.listdir(f"/proc/{pid}/fd"))
    )


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it holds. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it never came to that")
        time.sleep(0.05)
