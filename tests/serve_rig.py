"""`tokometer serve` in processes of its own, before an upstream of the test."""

import contextlib
import http.client
import json
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from proxy.scrape import Scrape

PATIENCE = 60.0  # seconds until a test gives up; machines are busy
EVENT = b'data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "word"}}]}\n\n'
LAST = (
    b'data: {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
ASK = json.dumps({"model": "m", "stream": True, "messages": [], "stream_options": {}}).encode()


class Upstream(ThreadingHTTPServer):
    """Answers with an event at once and with the rest when `go_on` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Upstream

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(EVENT + LAST)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(EVENT)
            self.server.go_on.wait(PATIENCE)
            self.wfile.write(LAST)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """It runs as long as the test."""
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


class Proxy:
    """`tokometer serve`."""

    def __init__(
        self, *arguments: str, program: Sequence[str] = ("-m", "proxy"), **of_process: Any
    ) -> None:
        settings = ["serve", "--port=0", "--admin-port=0", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, *program, *settings],
            bufsize=0,
            **{"stderr": subprocess.PIPE, **of_process},
        )

    def ready(self) -> "Proxy":
        self.ports(self.line())
        return self

    def ports(self, greeting: str) -> None:
        """Learn them from what it said."""
        found = re.findall(r"127\.0\.0\.1:(\d+)", greeting)
        self.port, self.admin_port = int(found[0]), int(found[-1])

    def line(self) -> str:
        """The next line on standard error, empty after the last one."""
        assert self.process.stderr is not None
        assert select.select([self.process.stderr], [], [], PATIENCE)[0]
        line: bytes = self.process.stderr.readline()
        return line.decode()

    @contextlib.contextmanager
    def stream(self) -> Iterator[http.client.HTTPResponse]:
        """An answer of which the first event has come."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("POST", "/v1/chat/completions", ASK)
            answer = client.getresponse()
            assert answer.read(len(EVENT)) == EVENT
            yield answer

    def admin(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the admin listener."""
        client = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read().decode()

    def count(self, name: str, **labels: str) -> float:
        return Scrape(self.admin("/metrics")[1], 0).total(name, **labels)

    def refuses(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) != 0

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(*arguments: str, **of_process: Any) -> Iterator[Proxy]:
    """It runs until the end of the context.

    `of_process`: `program` (arguments of Python), and what `subprocess.Popen` takes.
    """
    one = Proxy(*arguments, **of_process)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def children(pid: int) -> set[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        return set(map(int, listed.read_text().split()))
    return set(map(int, subprocess.check_output(["pgrep", "-P", str(pid)]).split()))
