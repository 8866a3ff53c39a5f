"""Probes and canaries of a whole proxy, by what users see of them."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from engine.rig import FAST, running
from serve_rig import ASK, Answer, Proxy, Upstream, eventually, serving

from proxy.engine import EngineSettings
from proxy.scrape import Scrape
from proxy.sockets import listen


def scrape(proxy: Proxy) -> Scrape:
    return Scrape(proxy.admin("/metrics")[1], 0)


def test_a_canary_is_in_no_metric_of_users_and_in_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        running(EngineSettings(seed=1, **FAST)) as engine,
        serving("--upstream", engine, "--canary-interval=1", f"--log-requests={log}") as proxy,
    ):
        proxy.ready()
        assert eventually(lambda: proxy.count("tokometer_canary_success", model="sim-8b") == 1)
        found = scrape(proxy)
        assert found.total("tokometer_canary_time_to_first_token_seconds", upstream="default") > 0
        assert found.total("tokometer_upstream_up", upstream="default") == 1
        for name in (
            "tokometer_requests_total",
            "tokometer_streams",
            "tokometer_output_tokens_total",
            "tokometer_time_to_first_token_seconds_count",
            "tokometer_connect_seconds_count",
            "tokometer_label_overflow_total",
        ):
            assert found.total(name) == 0, name
        # The list that was read is no model's series: that takes a client and a 2xx.
        assert found.values("tokometer_requests_total", "model") <= {"unknown"}
        proxy.signal()
        assert proxy.wait() == 0
    assert log.read_text() == ""


def serve_upstream(stack: contextlib.ExitStack, upstream: Upstream) -> None:
    thread = threading.Thread(target=upstream.serve_forever, args=(0.01,))
    thread.start()
    stack.callback(thread.join)
    stack.callback(upstream.shutdown)


class Counting(Answer):
    asked = 0

    def do_POST(self) -> None:
        Counting.asked += 1
        super().do_POST()


def test_there_is_one_canary_however_many_workers() -> None:
    with Upstream() as upstream:
        upstream.RequestHandlerClass = Counting
        upstream.go_on.set()
        with contextlib.ExitStack() as stack:
            serve_upstream(stack, upstream)
            began = time.monotonic()
            arguments = ("--canary-interval=1", "--canary-model=m", "--canary-api=chat")
            proxy = stack.enter_context(
                serving("--upstream", upstream.url, "--workers=4", *arguments)
            )
            proxy.ready()
            assert eventually(lambda: Counting.asked >= 3)
            assert Counting.asked <= time.monotonic() - began + 1


@contextlib.contextmanager
def engine(port: int, release: str) -> Iterator[None]:
    """The simulated engine as a process, gone at the exit."""
    command = [sys.executable, "-m", "proxy", "engine", f"--port={port}", f"--release={release}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert b"tokometer engine" in process.stderr.readline()
        yield
    finally:
        process.terminate()
        process.communicate()


def test_a_deploy_is_an_upstream_that_goes_and_comes_back_as_another() -> None:
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    with serving(f"--upstream=http://127.0.0.1:{port}", "--probe-interval=1") as proxy:
        proxy.ready()
        up = {"upstream": "default"}
        assert eventually(lambda: "tokometer_upstream_up{" in proxy.admin("/metrics")[1])
        assert proxy.count("tokometer_upstream_up") == 0
        with engine(port, "1.0"):
            assert eventually(
                lambda: proxy.count("tokometer_upstream_info", **up, version="1.0") == 1
            )
            assert proxy.count("tokometer_upstream_up", **up) == 1
        assert eventually(lambda: proxy.count("tokometer_upstream_up", **up) == 0)
        with engine(port, "2.0"):
            assert eventually(
                lambda: proxy.count("tokometer_upstream_info", **up, version="2.0") == 1
            )
            assert proxy.count("tokometer_upstream_info") == 1
            assert proxy.count("tokometer_upstream_up", **up) == 1


def test_names_that_an_upstream_echoes_and_does_not_list_fill_no_table() -> None:
    """`Upstream` answers as model `m` whatever it is asked; this one says what it was asked."""

    class Echo(Answer):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "real"}]}).encode()
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
            body = json.dumps({"model": asked["model"], "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with Upstream() as upstream, contextlib.ExitStack() as stack:
        upstream.RequestHandlerClass = Echo
        serve_upstream(stack, upstream)
        proxy = stack.enter_context(serving("--upstream", upstream.url, "--max-models=3"))
        proxy.ready()
        assert eventually(lambda: proxy.count("tokometer_upstream_up") == 1)
        url = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
        for name in [*(f"invented-{number}" for number in range(10)), "real"]:
            body = {**json.loads(ASK), "model": name, "stream": False}
            assert httpx.post(url, json=body).json()["model"] == name
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 11)
        found = scrape(proxy)
        assert found.total("tokometer_requests_total", model="real") == 1
        assert found.total("tokometer_requests_total", model="other") == 10
        assert found.total("tokometer_label_overflow_total", label="model") == 10


def test_a_key_is_in_no_page_and_goes_to_its_upstream_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[str | None] = []

    class Secured(Answer):
        def do_POST(self) -> None:
            keys.append(self.headers["Authorization"])
            super().do_POST()

    monkeypatch.setenv("TOKOMETER_CANARY_KEY", "very-secret")
    with Upstream() as upstream, contextlib.ExitStack() as stack:
        upstream.RequestHandlerClass = Secured
        upstream.go_on.set()
        serve_upstream(stack, upstream)
        arguments = ("--upstream", upstream.url, "--canary-interval=1", "--canary-model=m")
        proxy = stack.enter_context(serving(*arguments))
        proxy.ready()
        assert eventually(lambda: proxy.count("tokometer_canary_success", model="m") == 1)
        assert set(keys) == {"Bearer very-secret"}
        assert "very-secret" not in proxy.admin("/metrics")[1]
        with proxy.stream() as answer:
            answer.read()
        assert eventually(lambda: None in keys)  # a client's own request bears no key of ours
