"""A new process takes a running one's place: no request fails."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from serve_rig import ASK, EVENT, LAST, PATIENCE, Proxy, Upstream, eventually, serving

Connect = Callable[[], http.client.HTTPConnection]


class OverUnix(http.client.HTTPConnection):
    """To a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


class Crowd:
    """Clients that keep asking, each on new connections or on one that it keeps."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(keeps,)) for keeps in (True, False) * 3
        ]
        self.seen: Counter[str] = Counter()
        self.failures: list[str] = []

    @contextmanager
    def asking(self) -> Iterator["Crowd"]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(PATIENCE)

    def more(self, count: int = 60) -> bool:
        """Whether so many more requests are answered."""
        goal = sum(self.seen.values()) + count
        return eventually(lambda: sum(self.seen.values()) >= goal or bool(self.failures))

    def _ask(self, keeps: bool) -> None:
        connection = self._connect()
        while not self._over.is_set() and not self.failures:
            if not keeps:
                connection.close()
            elif connection.sock is None:
                connection = self._connect()  # the last answer said that it closes
            try:
                connection.request("POST", "/v1/chat/completions", ASK)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{'kept' if keeps else 'new'}: {error!r}")
            else:
                kind = "kept" if keeps else "new"
                if (answer.status, body) != (200, EVENT + LAST):
                    self.failures.append(f"{kind}: {answer.status} {body!r}")
                self.seen[kind] += 1
        connection.close()


def handed_on(
    crowd: Crowd, settings: list[str], old: Proxy, stack: ExitStack, *generations: int
) -> None:
    """More generations of so many workers, each of which takes over from the one before."""
    for workers in generations:
        new = stack.enter_context(serving(*settings, f"--workers={workers}"))
        new.line()
        old.signal()
        assert old.wait() == 0
        assert crowd.more()
        assert crowd.failures == []
        old = new


def test_no_request_fails_while_one_process_takes_over_from_the_other(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.go_on.set()
    log = tmp_path / "log"
    settings = ["--upstream", upstream.url, "--reuse-port", "--log-requests", str(log)]
    with ExitStack() as stack:
        first = stack.enter_context(serving(*settings, "--workers=2")).ready()
        settings += [f"--port={first.port}", f"--admin-port={first.admin_port}"]
        crowd = Crowd(lambda: http.client.HTTPConnection("127.0.0.1", first.port, timeout=PATIENCE))
        with crowd.asking():
            assert crowd.more()
            handed_on(crowd, settings, first, stack, 1, 2)
        assert crowd.failures == []
        assert min(crowd.seen[kind] for kind in ("kept", "new")) > 20
        asked = sum(crowd.seen.values())
        assert eventually(lambda: len(log.read_text().splitlines()) == asked)
    outcomes = {json.loads(line)["outcome"] for line in log.read_text().splitlines()}
    assert outcomes == {"completed"}


def test_no_request_fails_while_a_unix_socket_is_taken_over(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.go_on.set()
    path = tmp_path / "socket"
    settings = ["--upstream", upstream.url, "--reuse-port", "--host", f"unix:{path}"]
    settings += ["--admin-host", f"unix:{tmp_path / 'admin'}"]
    with ExitStack() as stack:
        first = stack.enter_context(serving(*settings, "--workers=2"))
        assert f": unix:{path} -> " in first.line()
        crowd = Crowd(lambda: OverUnix(str(path)))
        with crowd.asking():
            assert crowd.more()
            handed_on(crowd, settings, first, stack, 2)
        assert crowd.failures == []
    assert path.exists()  # killed, the last one could not take it away


def test_a_stream_goes_on_at_the_old_one_while_the_new_one_answers(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url, "--reuse-port") as old, old.ready().stream() as answer:
        ports = [f"--port={old.port}", f"--admin-port={old.admin_port}"]
        with serving("--upstream", upstream.url, "--reuse-port", *ports) as new:
            new.ready()
            old.signal()
            time.sleep(1)  # longer than the old one answers on kept connections
            assert [new.admin("/readyz")[0] for _ in range(20)] == [200] * 20
            with new.stream() as another:
                assert old.process.poll() is None
                upstream.go_on.set()
                assert answer.read() == another.read() == LAST
            assert old.wait() == 0
            assert new.count("tokometer_workers", state="ready") == 1


def test_without_the_setting_the_port_is_in_use(upstream: Upstream) -> None:
    with serving("--upstream", upstream.url, "--reuse-port") as old:
        old.ready()
        with serving("--upstream", upstream.url, f"--port={old.port}") as new:
            assert "is in use" in new.line()
            assert new.wait() == 2
