"""The supervisor with small workers of its own kind; the real ones are in `test_serve.py`."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.signals import TWICE
from proxy.supervisor import _wait

PATIENCE = 20.0  # seconds until a test gives up

# A worker answers every connection with its process id and holds it open until it is told to end;
# then it lets go of its listener and ends with its last connection. `die` in a request kills it.
# The keeper says that all is ready once every worker has been in touch.
CHILDREN = """
import contextlib, os, select, signal, socket, sys
from proxy.config import Config, Upstream
from proxy.sockets import opened
from proxy.settings import SettingError
from proxy.supervisor import Supervisor

def run_worker(config, slot, listener, channel_path):
    draining = []
    signal.signal(signal.SIGTERM, lambda *_: draining.append(True))
    clients = []
    keeper = dial(channel_path)
    while clients or not draining:
        if draining:
            listener.close()
        waiting = [keeper, *clients] if draining else [keeper, *clients, listener]
        for one in select.select(waiting, [], [], 0.02)[0]:
            if one is listener:
                client = listener.accept()[0]
                clients.append(client)
                with contextlib.suppress(ConnectionError):
                    client.sendall(b"%d\\n" % os.getpid())
                continue
            if one is keeper:
                keeper = dial(channel_path)
                continue
            with contextlib.suppress(ConnectionError):
                if b"die" in one.recv(100):
                    os._exit(7)
            clients.remove(one)
            one.close()

def dial(path):
    keeper = socket.socket(socket.AF_UNIX)
    keeper.connect(path)
    return keeper

def run_keeper(config, admin, channel):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: print("log opened anew", file=sys.stderr, flush=True))
    workers = [channel.accept()[0] for _ in range(config.workers)]
    while True:
        client = admin.accept()[0]
        client.recv(1000)
        client.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n%d" % os.getpid())
        client.close()
"""

# A scout says that it is there, and nothing more.
CHILDREN += """
def run_scout(config, channel_path):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        signal.pause()
"""
RUN = """
def reload():
    print("files read anew", file=sys.stderr, flush=True)

config = Config(
    upstreams=(Upstream("default", "http", "127.0.0.1", 8000),), port=PORT, admin_port=0,
    workers=WORKERS, drain_seconds=DRAIN,
)
with opened(config) as sockets:
    sys.exit(Supervisor(config, sockets, run_worker, run_keeper, run_scout, reload).run())
"""


class Running:
    """A supervisor in a process of its own, and the clients that it has."""

    def __init__(self, workers: int, drain: float, changed: str) -> None:
        numbers = f"PORT, WORKERS, DRAIN = 0, {workers}, {drain}\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILDREN + changed + numbers + RUN],
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.clients: list[socket.socket] = []

    def ready(self, line: str = "") -> "Running":
        """Waits for it, unless that is the line which says so."""
        ports = re.findall(r":(\d+)", line or self.line())
        self.port, self.admin = int(ports[0]), int(ports[-1])
        return self

    def line(self) -> str:
        """The next line on stderr, empty after the last one."""
        assert self.process.stderr is not None
        assert select.select([self.process.stderr], [], [], PATIENCE)[0]
        return self.process.stderr.readline().decode()

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.clients.append(client)
        return client

    def refuses(self) -> bool:
        """Whether new connections come to be refused."""
        for _ in range(500):
            try:
                self.connect().close()
            except ConnectionError:
                return True
            time.sleep(0.02)
        return False

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        for client in self.clients:
            client.close()


@contextlib.contextmanager
def running(workers: int = 1, drain: float = 20, changed: str = "") -> Iterator[Running]:
    one = Running(workers, drain, changed)
    try:
        yield one
    finally:
        one.end()


def pid_from(client: socket.socket) -> int:
    """What a worker says first: its process id."""
    said = b""
    while not said.endswith(b"\n"):
        data = client.recv(100)
        assert data
        said += data
    return int(said)


def closed(client: socket.socket) -> bool:
    """Whether the other side has closed it, or does so soon."""
    client.settimeout(PATIENCE)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_greeting_tells_the_real_ports_once_all_is_ready() -> None:
    with running() as one:
        line = one.line()
    assert re.fullmatch(
        r"tokometer [\d.]+: http://127\.0\.0\.1:\d+ -> http://127\.0\.0\.1:8000 · "
        r"metrics http://127\.0\.0\.1:\d+/metrics\n",
        line,
    )
    assert ":0 " not in line


def test_several_workers_share_the_port() -> None:
    with running(workers=2) as one:
        one.ready()
        clients = [one.connect() for _ in range(40)]
        assert len({pid_from(client) for client in clients}) == 2


def test_a_killed_worker_is_replaced() -> None:
    with running() as one:
        first = pid_from(one.ready().connect())
        os.kill(first, signal.SIGKILL)
        assert "worker 0 ended by SIGKILL" in one.line()
        assert pid_from(one.connect()) != first


def test_a_connection_that_waits_for_a_dead_worker_is_answered_by_its_successor() -> None:
    with running() as one:
        first = pid_from(one.ready().connect())
        os.kill(first, signal.SIGSTOP)
        waiting = one.connect()
        os.kill(first, signal.SIGKILL)
        assert pid_from(waiting) != first


def test_a_worker_that_ends_by_itself_is_replaced() -> None:
    with running() as one:
        client = one.ready().connect()
        first = pid_from(client)
        client.sendall(b"die")
        assert "worker 0 ended with 7" in one.line()
        assert pid_from(one.connect()) != first


def test_a_killed_keeper_is_replaced() -> None:
    with running() as one:
        one.ready()
        os.kill(keeper_pid(one), signal.SIGKILL)
        assert "keeper ended by SIGKILL" in one.line()
        assert keeper_pid(one)


def test_a_killed_scout_is_replaced_and_nobody_else_is() -> None:
    changed = (
        "def run_scout(*_):\n"
        "    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "    print(f'scout {os.getpid()}', file=sys.stderr, flush=True)\n"
        "    signal.pause()\n"
    )
    with running(changed=changed) as one:
        lines = [one.line(), one.line()]  # of two processes, in any order
        said = next(line for line in lines if line.startswith("scout "))
        lines.remove(said)
        worker = pid_from(one.ready(*lines).connect())
        os.kill(int(said.split()[1]), signal.SIGKILL)
        assert "scout ended by SIGKILL" in one.line()
        assert one.line().startswith("scout ")
        assert pid_from(one.connect()) == worker


def test_no_scout_is_started_where_it_has_nothing_to_do() -> None:
    changed = (
        "from proxy.scouting import Scouting\n"
        "from functools import partial\n"
        "Config = partial(Config, scouting={'default': Scouting(probe_interval=None)})\n"
        "def run_scout(*_): raise SettingError('a scout')\n"
    )
    with running(changed=changed) as one:
        pid_from(one.ready().connect())


def keeper_pid(one: Running) -> int:
    with socket.create_connection(("127.0.0.1", one.admin), timeout=PATIENCE) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        said = b""
        while data := client.recv(100):
            said += data
        return int(said.split()[-1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stop_refuses_new_connections_and_lets_running_ones_end(number: int) -> None:
    with running(workers=2) as one:
        client = one.ready().connect()
        pid_from(client)
        one.process.send_signal(number)
        assert one.refuses()
        assert keeper_pid(one)  # which tells of the streams that are left
        assert one.process.poll() is None
        client.close()
        assert one.wait() == 0
        assert one.line() == ""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_hangup_has_files_read_anew_and_is_then_told_to_the_keeper(number: int) -> None:
    with running() as one:
        first = pid_from(one.ready().connect())
        one.process.send_signal(number)
        assert one.line() == "files read anew\n"
        assert one.line() == "log opened anew\n"
        assert pid_from(one.connect()) == first


def test_what_does_not_end_in_time_is_ended() -> None:
    with running(drain=0.2, changed="import proxy.supervisor as s; s.MARGIN = 0.2\n") as one:
        client = one.ready().connect()
        pid_from(client)
        one.process.send_signal(signal.SIGTERM)
        assert one.wait() == 0
        assert closed(client)


def test_a_second_signal_ends_at_once() -> None:
    with running(drain=600) as one:
        client = one.ready().connect()
        pid_from(client)
        one.process.send_signal(signal.SIGTERM)
        assert one.refuses()
        time.sleep(TWICE)
        one.process.send_signal(signal.SIGTERM)
        assert one.wait() == 128 + signal.SIGTERM
        assert closed(client)


def test_a_signal_that_is_sent_twice_in_one_go_counts_once() -> None:
    with running() as one:
        client = one.ready().connect()
        pid_from(client)
        one.process.send_signal(signal.SIGINT)
        one.process.send_signal(signal.SIGTERM)
        assert one.refuses()
        client.close()
        assert one.wait() == 0


def test_a_killed_supervisor_leaves_nobody_behind() -> None:
    with running(workers=2) as one:
        one.ready()
        clients = [one.connect() for _ in range(10)]
        assert [pid_from(client) for client in clients]
        one.process.kill()
        assert all(closed(client) for client in clients)
        assert one.refuses()


def test_bad_input_that_a_child_finds_ends_the_start_with_one_line() -> None:
    changed = "def run_worker(*_): raise SettingError('upstream_ca: no such file')\n"
    with running(changed=changed) as one:
        assert one.wait() == 2
        assert one.line() == "tokometer: upstream_ca: no such file\n"
        assert one.line() == ""


def test_the_channel_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    changed = (
        "import stat\n"
        f"notes = {str(tmp_path / 'notes')!r}\n"
        "def run_worker(config, slot, listener, path):\n"
        "    mode = stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode)\n"
        "    open(notes, 'w').write(f'{mode:o} {path}')\n"
        "    keeper = dial(path)\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "    signal.pause()\n"
    )
    with running(changed=changed) as one:
        one.ready()
        one.process.send_signal(signal.SIGTERM)
        assert one.wait() == 0
    mode, path = (tmp_path / "notes").read_text().split()
    assert mode == "700"
    assert not Path(path).parent.exists()


def test_who_dies_soon_after_the_start_waits_longer_each_time() -> None:
    waits = [_wait(early) for early in range(12)]
    assert waits[0] == 0
    assert waits[1] <= 0.5
    assert waits == sorted(waits)
    assert waits[-1] == 10
