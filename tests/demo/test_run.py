"""The whole demo: engines, proxy, traffic, figures."""

import contextlib
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from proxy.demo.run import SIMULATIONS, _port
from proxy.dials import Dials
from proxy.settings import SettingError
from proxy.sockets import listen

PATIENCE = 30.0  # seconds until a test gives up


class Running:
    """`tokometer demo` on free ports."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "demo", "--port=0", "--admin-port=0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    def line(self, pattern: str) -> str:
        """The next line on standard output that matches."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], PATIENCE)[0]:
            line = self.process.stdout.readline().decode()
            assert line, f"no line like {pattern}"
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line like {pattern}")

    def ports(self) -> list[int]:
        return [
            int(self.line(rf"^{what}").split("http://127.0.0.1:")[1].split()[0].split("/")[0])
            for what in ("proxy", "metrics")
        ]

    def end(self) -> tuple[int, str]:
        """Waits for all processes to end; exit code, and the rest of standard output."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode()


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    one = Running(*arguments)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def is_free(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_it_runs_for_the_time_given_and_shows_the_speeds_of_each_model() -> None:
    with running("--seconds", "4") as demo:
        ports = demo.ports()
        code, out = demo.end()
    assert code == 0
    lines = re.findall(r"^ +(\d+) s +(\d+) streams +(\d+) tokens/s", out, re.MULTILINE)
    assert [line[0] for line in lines] == ["1", "2", "3", "4"]
    assert any(int(tokens) > 0 for _, _, tokens in lines)
    assert all(is_free(port) for port in ports)
    table = {row[0]: row for row in map(str.split, out.split("model ")[1].splitlines()[1:])}
    assert set(table) - {"unknown"} <= {one.crowd.model for one in SIMULATIONS}
    assert int(table["sim-8b"][1]) > 0


def test_no_simulated_engine_is_faster_than_its_ceiling() -> None:
    for one in SIMULATIONS:
        ceiling = Dials(**one.dials).ceiling
        assert ceiling is not None
        assert 0.5 < one.engine.rate / ceiling < 1


def test_ctrl_c_ends_it_with_the_table() -> None:
    with running() as demo:
        ports = demo.ports()
        demo.line("^ +1 s ")
        demo.process.send_signal(signal.SIGINT)
        code, out = demo.end()
    assert code == 0
    assert "model " in out
    assert all(is_free(port) for port in ports)


def test_all_processes_end_when_it_is_killed() -> None:
    with running() as demo:
        ports = demo.ports()
        demo.line("^ +1 s ")
        demo.process.kill()
        # Standard output is closed when the last of them has gone.
        code, _ = demo.end()
    assert code == -signal.SIGKILL
    assert all(is_free(port) for port in ports)


def test_another_port_that_is_busy_is_one_line_and_exit_code_2() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        result = subprocess.run(
            [sys.executable, "-m", "proxy", "demo", f"--port={port}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert result.returncode == 2
    assert result.stderr.startswith(f"tokometer: port: 127.0.0.1:{port} is in use")
    assert result.stderr.count("\n") == 1


def test_the_usual_port_gives_way_to_a_free_one_when_busy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with listen("127.0.0.1", 0) as taken:
        busy = taken.getsockname()[1]
        free = _port("127.0.0.1", busy, busy)
        assert free != busy
        assert capsys.readouterr().out == f"port {busy} is busy: taking {free} instead\n"
        with pytest.raises(SettingError, match="is in use"):
            _port("127.0.0.1", busy, 8080)
    assert _port("127.0.0.1", busy, busy) == busy
