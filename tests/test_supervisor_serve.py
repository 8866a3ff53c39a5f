"""`tokometer serve` as users run it: real processes, a real upstream, signals."""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from proxy.scrape import Scrape
from proxy.signals import TWICE

PATIENCE = 20.0  # seconds until a test gives up
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
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


class Proxy:
    """`tokometer serve`."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--port=0", "--admin-port=0", *arguments],
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    def ready(self) -> "Proxy":
        ports = re.findall(r"127\.0\.0\.1:(\d+)", self.line())
        self.port, self.admin_port = int(ports[0]), int(ports[-1])
        return self

    def line(self) -> str:
        """The next line on standard error, empty after the last one."""
        assert self.process.stderr is not None
        assert select.select([self.process.stderr], [], [], PATIENCE)[0]
        return self.process.stderr.readline().decode()

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
def serving(*arguments: str) -> Iterator[Proxy]:
    one = Proxy(*arguments)
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


def test_it_serves_and_ends_with_0(upstream: Upstream, tmp_path: Path) -> None:
    upstream.go_on.set()
    log = tmp_path / "log"
    with serving("--upstream", upstream.url, "--log-requests", str(log)) as proxy:
        with proxy.ready().stream() as answer:
            assert answer.read() == LAST
        assert proxy.admin("/readyz")[0] == 200
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 1)
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["model"], line["outcome"], line["code"]) == ("m", "completed", 200)


def test_settings_come_from_the_environment_and_the_file_too(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokometer.toml"
    file.write_text(f'[upstreams.a]\nurl = "{upstream.url}"\nprefix = "/a"\n')
    monkeypatch.setenv("TOKOMETER_WORKERS", "2")
    with serving("--config", str(file)) as proxy:
        proxy.ready()
        assert eventually(lambda: proxy.count("tokometer_workers", state="ready") == 2)


def test_a_killed_worker_is_back_and_what_was_counted_stays(upstream: Upstream) -> None:
    upstream.go_on.set()
    with serving("--upstream", upstream.url) as proxy:
        with proxy.ready().stream() as answer:
            answer.read()
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 1)
        before = children(proxy.process.pid)
        os.kill(max(before), signal.SIGKILL)  # workers are the last that are started
        assert "worker 0 ended by SIGKILL" in proxy.line()
        with proxy.stream() as answer:
            assert answer.read() == LAST
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 2)
        assert proxy.count("tokometer_workers") == 1
        assert len(children(proxy.process.pid) & before) == len(before) - 1


def test_running_streams_finish_while_new_ones_are_refused(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url) as proxy, proxy.ready().stream() as answer:
        proxy.signal()
        assert eventually(proxy.refuses)
        assert eventually(lambda: proxy.admin("/readyz")[0] == 503)
        assert proxy.count("tokometer_streams") == 1
        upstream.go_on.set()
        assert answer.read() == LAST
        assert proxy.wait() == 0


def test_what_does_not_finish_in_time_is_cut_and_counted(
    upstream: Upstream, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    arguments = ("--upstream", upstream.url, "--log-requests", str(log), "--drain-seconds=0.3")
    with serving(*arguments) as proxy, proxy.ready().stream() as answer:
        proxy.signal()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        assert proxy.wait() == 0
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["outcome"] == "aborted"


def test_a_second_signal_cuts_at_once(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url) as proxy, proxy.ready().stream() as answer:
        proxy.signal()
        assert eventually(proxy.refuses)
        time.sleep(TWICE)
        proxy.signal()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        assert proxy.wait() == 128 + signal.SIGTERM


def test_ctrl_c_is_a_stop_like_any_other(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url) as proxy:
        proxy.ready().signal(signal.SIGINT)
        assert proxy.wait() == 0


def test_killed_it_leaves_nobody_behind(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url, "--workers=2") as proxy:
        proxy.ready().process.kill()
        # The pipe is closed when the last process that could write to it is gone.
        proxy.process.communicate(timeout=PATIENCE)
        # ... or nearly: a process closes its files one by one.
        assert eventually(proxy.refuses)


def test_a_port_in_use_is_one_line_and_exit_code_2(upstream: Upstream) -> None:
    port = upstream.server_address[1]
    with serving("--upstream", upstream.url, f"--port={port}") as proxy:
        assert proxy.line() == (
            f"tokometer: port: 127.0.0.1:{port} is in use: stop what listens there, "
            "or choose another port with --port\n"
        )
        assert proxy.line() == ""
        assert proxy.wait() == 2


def test_what_only_a_child_can_find_wrong_ends_the_start(
    upstream: Upstream, tmp_path: Path
) -> None:
    file = tmp_path / "tokometer.toml"
    file.write_text("buckets.tokometer_nothing = [1, 2]\n")
    with serving("--upstream", upstream.url, "--config", str(file)) as proxy:
        line = proxy.line()
        assert line.startswith("tokometer: buckets: ")
        assert "tokometer_nothing" in line
        assert proxy.line() == ""
        assert proxy.wait() == 2
