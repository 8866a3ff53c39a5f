"""What is killed, full or gone: traffic goes on, and what is lost is counted."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from serve_rig import (
    LAST,
    PATIENCE,
    Proxy,
    Upstream,
    children,
    eventually,
    serving,
)

from proxy.signals import TWICE

FULL = Path("/dev/full")


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def titled(proxy: Proxy, name: str) -> int:
    """The child with this title."""
    for pid in children(proxy.process.pid):
        if title(pid) == f"tokometer: {name}":
            return pid
    raise AssertionError(f"no {name}")


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def whole_streams(proxy: Proxy, count: int) -> None:
    for _ in range(count):
        with proxy.stream() as answer:
            assert answer.read() == LAST


def told(proxy: Proxy) -> bool:
    """Whether the keeper knows of the first output of a running stream."""
    return proxy.count("tokometer_time_to_first_token_seconds_count") > 0


linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/full")


@linux
def test_titles_tell_the_processes_apart(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url, "--workers=2") as proxy:
        proxy.ready()
        assert title(proxy.process.pid) == "tokometer: supervisor"
        found = sorted(title(pid) for pid in children(proxy.process.pid))
        workers = ["tokometer: worker 0", "tokometer: worker 1"]
        assert found == ["tokometer: keeper", "tokometer: scout", *workers]


@linux
def test_streams_of_a_killed_worker_are_counted_and_counters_never_fall(
    upstream: Upstream, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with serving("--upstream", upstream.url, "--log-requests", str(log)) as proxy:
        with proxy.ready().stream() as answer:
            assert eventually(lambda: told(proxy))
            tokens = proxy.count("tokometer_output_tokens_total")
            os.kill(titled(proxy, "worker 0"), signal.SIGKILL)
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
        assert "worker 0 ended by SIGKILL" in proxy.line()
        aborted = {"outcome": "aborted", "code": "200"}
        assert eventually(lambda: proxy.count("tokometer_requests_total", **aborted) == 1)
        assert proxy.count("tokometer_output_tokens_total") >= tokens > 0
        assert proxy.count("tokometer_streams") == 0
        upstream.go_on.set()
        whole_streams(proxy, 3)
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 4)
        assert proxy.count("tokometer_output_tokens_total") >= tokens + 3
        assert eventually(lambda: len(lines(log)) == 4)
    assert [(line["outcome"], line["code"]) for line in lines(log)] == [
        ("aborted", 200),
        *[("completed", 200)] * 3,
    ]


@linux
def test_a_killed_keeper_is_replaced_and_traffic_does_not_notice(
    upstream: Upstream, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with serving("--upstream", upstream.url, "--log-requests", str(log)) as proxy:
        with proxy.ready().stream() as answer:
            first = titled(proxy, "keeper")
            os.kill(first, signal.SIGKILL)
            assert "keeper ended by SIGKILL" in proxy.line()
            assert eventually(lambda: listens(proxy) and proxy.admin("/readyz")[0] == 200)
            assert titled(proxy, "keeper") != first
            assert eventually(lambda: proxy.count("tokometer_streams") == 1)
            upstream.go_on.set()
            assert answer.read() == LAST
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 1)
        assert proxy.count("tokometer_records_dropped_total") == 0
        assert eventually(lambda: len(lines(log)) == 1)


def listens(proxy: Proxy) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return proxy.admin("/healthz")[0] == 200
    return False


@linux
def test_exchanges_that_end_while_there_is_no_keeper_are_told_to_the_next_one(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.go_on.set()
    log = tmp_path / "log"
    with serving("--upstream", upstream.url, "--log-requests", str(log)) as proxy:
        os.kill(titled(proxy.ready(), "keeper"), signal.SIGSTOP)
        whole_streams(proxy, 20)
        # What it was given and did not read is lost with it: here that is nothing.
        os.kill(titled(proxy, "keeper"), signal.SIGCONT)
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 20)
        assert len(lines(log)) == 20


def test_a_full_disk_stops_no_traffic_is_said_once_and_lines_are_counted(
    upstream: Upstream,
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full here")
    upstream.go_on.set()
    with serving("--upstream", upstream.url, "--log-requests", str(FULL)) as proxy:
        whole_streams(proxy.ready(), 1)
        assert eventually(lambda: proxy.count("tokometer_log_lines_lost_total") == 1)
        whole_streams(proxy, 4)
        assert eventually(lambda: proxy.count("tokometer_log_lines_lost_total") == 5)
        assert proxy.count("tokometer_requests_total") == 5
        proxy.signal()
        assert proxy.line() == (
            "tokometer: request log /dev/full: No space left on device: "
            "lines are lost until that changes\n"
        )
        assert proxy.wait() == 0
        assert proxy.line() == ""


def test_a_log_pipe_that_is_gone_stops_no_traffic(upstream: Upstream) -> None:
    upstream.go_on.set()
    reader, writer = os.pipe()
    with serving("--upstream", upstream.url, "--log-requests=-", stdout=writer) as proxy:
        os.close(writer)
        whole_streams(proxy.ready(), 1)
        assert json.loads(os.read(reader, 10_000))["outcome"] == "completed"
        os.close(reader)
        whole_streams(proxy, 5)
        assert eventually(lambda: proxy.count("tokometer_log_lines_lost_total") == 5)
        assert "request log -: Broken pipe: lines are lost" in proxy.line()
        assert proxy.count("tokometer_requests_total") == 6
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""


def test_a_hangup_opens_the_log_anew_and_loses_no_line(upstream: Upstream, tmp_path: Path) -> None:
    upstream.go_on.set()
    log = tmp_path / "log"
    with serving("--upstream", upstream.url, "--log-requests", str(log)) as proxy:
        whole_streams(proxy.ready(), 2)
        assert eventually(lambda: len(lines(log)) == 2)
        log.rename(tmp_path / "rotated")
        proxy.signal(signal.SIGHUP)
        assert eventually(log.exists)
        whole_streams(proxy, 3)
        assert eventually(lambda: len(lines(log)) == 3)
        assert len(lines(tmp_path / "rotated")) == 2


@linux
def test_nobody_who_reads_standard_error_is_missed(upstream: Upstream) -> None:
    upstream.go_on.set()
    with serving("--upstream", upstream.url, "--log-requests", str(FULL)) as proxy:
        proxy.ready()
        assert proxy.process.stderr is not None
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), proxy.process.stderr.fileno())
        whole_streams(proxy, 2)
        assert eventually(lambda: proxy.count("tokometer_log_lines_lost_total") == 2)
        before = titled(proxy, "worker 0")
        os.kill(before, signal.SIGKILL)
        assert eventually(lambda: before not in children(proxy.process.pid))
        whole_streams(proxy, 2)
        assert eventually(lambda: proxy.count("tokometer_log_lines_lost_total") == 4)
        proxy.signal()
        assert proxy.wait() == 0


@pytest.mark.parametrize("killed", [False, True])
def test_streams_are_told_of_that_a_second_signal_or_a_killed_supervisor_cut(
    upstream: Upstream, tmp_path: Path, killed: bool
) -> None:
    log = tmp_path / "log"
    arguments = ("--upstream", upstream.url, "--workers=2", "--log-requests", str(log))
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(serving(*arguments)).ready()
        answers = [stack.enter_context(proxy.stream()) for _ in range(6)]
        if killed:
            proxy.signal(signal.SIGKILL)
        else:
            proxy.signal()
            assert eventually(proxy.refuses)
            time.sleep(TWICE)
            proxy.signal()
        for answer in answers:
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
        assert proxy.wait() == (-signal.SIGKILL if killed else 128 + signal.SIGTERM)
        assert eventually(lambda: len(lines(log)) == 6)
    assert {(line["outcome"], line["code"]) for line in lines(log)} == {("aborted", 200)}


def test_health_is_asked_for_without_another_program(upstream: Upstream, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}

    def health(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "proxy", "health", *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.returncode, done.stdout + done.stderr

    with serving("--upstream", upstream.url, env=environment) as proxy, proxy.ready().stream():
        where = f"http://127.0.0.1:{proxy.admin_port}"
        assert health() == (0, f"{where}: healthy\n")
        assert health("--ready", "--admin", where) == (0, f"{where}: ready\n")
        proxy.signal()
        assert eventually(lambda: proxy.admin("/readyz")[0] == 503)
        assert health("--ready") == (1, f"{where}: /readyz does not answer 200\n")
        assert health()[0] == 0
