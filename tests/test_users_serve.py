"""`tokometer serve` by user: one name for a key, in all workers, and no key anywhere."""

import http.client
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from serve_rig import (
    ASK,
    LAST,
    PATIENCE,
    Proxy,
    Upstream,
    children,
    eventually,
    serving,
)

from proxy.origin import Secret
from proxy.scrape import Scrape

KEY = "sk-live-0123456789abcdef"
SECRET = "a secret of the operator"


def ask(proxy: Proxy, times: int = 1) -> None:
    """Streams with our key, each on a connection of its own."""
    for _ in range(times):
        client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)
        with closing(client):
            client.request("POST", "/v1/chat/completions", ASK, {"Authorization": f"Bearer {KEY}"})
            assert client.getresponse().read().endswith(LAST)


def requests(proxy: Proxy, user: str) -> float:
    return proxy.count("tokometer_user_requests_total", user=user)


def arguments(upstream: Upstream) -> Sequence[str]:
    upstream.go_on.set()
    return ("--upstream", upstream.url, "--user-from", "api-key", "--workers", "2")


def test_a_key_has_the_name_that_the_operators_secret_gives_it(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKOMETER_USER_SECRET", SECRET)
    user, log = Secret(SECRET.encode()).pseudonym(KEY), tmp_path / "log"
    with serving(*arguments(upstream), "--log-requests", str(log)) as proxy:
        ask(proxy.ready(), 10)
        assert eventually(lambda: requests(proxy, user) == 10)
        text = proxy.admin("/metrics")[1]
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""
    for written in (text, log.read_text()):
        assert KEY[8:] not in written
        assert SECRET not in written
    assert user not in log.read_text()


def test_without_a_secret_a_key_keeps_its_name_until_the_next_start(upstream: Upstream) -> None:
    with serving(*arguments(upstream)) as proxy:
        said = proxy.line()
        assert said.startswith("tokometer: users by api-key get other names at every start: ")
        assert "TOKOMETER_USER_SECRET" in said
        ask(proxy.ready(), 5)
        assert eventually(lambda: proxy.count("tokometer_user_requests_total") == 5)
        before = children(proxy.process.pid)
        for pid in before - {keeper(proxy)}:
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: len(children(proxy.process.pid) - before) == len(before) - 1)
        assert eventually(lambda: proxy.count("tokometer_workers", state="ready") == 2)
        ask(proxy, 5)
        assert eventually(lambda: proxy.count("tokometer_user_requests_total") == 10)
        scrape = Scrape(proxy.admin("/metrics")[1], 0)
        names = scrape.values("tokometer_user_requests_total", "user")
        assert len(names) == 1


def keeper(proxy: Proxy) -> int:
    """Its process id: it is started first."""
    return min(children(proxy.process.pid))


def test_there_are_no_metrics_by_user_unless_they_are_asked_for(upstream: Upstream) -> None:
    upstream.go_on.set()
    with serving("--upstream", upstream.url) as proxy:
        ask(proxy.ready())
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 1)
        assert "tokometer_user_" not in proxy.admin("/metrics")[1]
