"""A worker can have more connections than the usual limit; the standard descriptors are there."""

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serve_rig import PATIENCE, Upstream, eventually, upstream

from proxy.health import answers

__all__ = ["upstream"]

PROGRAM = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from proxy.descriptors import make_room
before = sorted(os.listdir("/dev/fd"))
make_room()
assert sorted(os.listdir("/dev/fd")) == before, "left open"
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
size = [line for line in open("/proc/self/status") if line.startswith("FDSize")]
print(int(size[0].split()[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the size")
def test_the_limit_is_raised_and_the_table_is_there_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == ""
    limit, table = map(int, done.stdout.split())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert limit == (1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16))
    assert table >= limit


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("closed", CLOSED)
def test_a_standard_descriptor_that_is_closed_is_dev_null(closed: str, tmp_path: Path) -> None:
    script = (
        "import os, sys; from proxy.descriptors import fill_standard; fill_standard()\n"
        "null = os.stat(os.devnull)\n"
        "found = [os.path.samestat(os.fstat(number), null) for number in range(3)]\n"
        "streams = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]\n"
        "print('out', flush=True); print('err', file=sys.stderr, flush=True)\n"
        "sys.stdin.read()\n"
        "open(sys.argv[1], 'w').write(repr((found, streams, sys.stderr.isatty())))\n"
    )
    found = tmp_path / "found"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", script, str(found)],
        stdin=subprocess.PIPE,
        capture_output=True,
    )
    gone = ["<&-" in closed, " >&-" in f" {closed}", "2>&-" in closed]
    assert found.read_text() == repr((gone, [0, 1, 2], False))
    assert done.stdout == (b"" if gone[1] else b"out\n")
    assert done.stderr == (b"" if gone[2] else b"err\n")


@pytest.mark.parametrize("closed", CLOSED)
def test_a_proxy_whose_standard_descriptors_are_closed_serves(
    closed: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.go_on.set()
    admin = f"unix:{tmp_path / 'admin'}"
    arguments = ["serve", "--upstream", upstream.url, "--host", f"unix:{tmp_path / 'data'}"]
    arguments += ["--admin-host", admin, "--log-requests=-"]
    proxy = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "proxy", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert eventually(lambda: answers(admin, "/readyz"))
        proxy.send_signal(signal.SIGHUP)
        assert answers(f"unix:{tmp_path / 'data'}", "/no/such") is False  # but it has answered
        assert eventually(lambda: answers(admin, "/readyz"))
        proxy.send_signal(signal.SIGTERM)
        out, err = proxy.communicate(timeout=PATIENCE)
        assert proxy.returncode == 0
    finally:
        proxy.kill()
        proxy.communicate()
    lines = [json.loads(line)["code"] for line in out.splitlines()]
    assert lines == ([] if " >&-" in f" {closed}" else [501])
    assert err.count(b"\n") == (0 if "2>&-" in closed else 1)


@pytest.mark.parametrize("command", ["--help", "ceiling", "serve", "health --admin unix:/none"])
def test_other_commands_end_as_ever_without_them(command: str) -> None:
    line = f"{sys.executable} -m proxy {command}"
    whole = subprocess.run(["sh", "-c", f"exec {line}"], capture_output=True)
    closed = subprocess.run(["sh", "-c", f"exec {line} <&- >&- 2>&-"], capture_output=True)
    assert closed.returncode == whole.returncode
