import socket
from typing import Any

import pytest

from proxy.address import Upstream
from proxy.config import Config
from proxy.greeting import greeting, is_loopback, warnings
from proxy.sockets import Sockets


def config(*upstreams: Upstream, **settings: Any) -> Config:
    return Config(upstreams or (Upstream.parse("default", "https://up"),), **settings)


def sockets(address: str, admin: str) -> Sockets:
    with socket.socket() as none:
        return Sockets([none], none, none, "", address, admin)


def test_it_says_where_clients_go_and_where_that_leads() -> None:
    ways = Upstream.parse("a", "http://a:1", "/a"), Upstream.parse("default", "unix:/run/b")
    where = sockets("https://127.0.0.1:8080", "http://127.0.0.1:9464")
    assert greeting(config(*ways), where) == (
        "https://127.0.0.1:8080 -> /a http://a:1, unix:/run/b · metrics http://127.0.0.1:9464/metrics"
    )


def test_metrics_on_a_unix_socket_are_a_path_of_it() -> None:
    assert greeting(config(), sockets("unix:/a", "unix:/b")).endswith("metrics unix:/b /metrics")


def test_the_usual_settings_need_no_warning() -> None:
    assert warnings(config()) == []


def test_whoever_believes_every_upstream_is_told_loudly() -> None:
    (line,) = warnings(config(upstream_insecure=True))
    assert "NO CERTIFICATE OF AN UPSTREAM IS CHECKED" in line


def test_open_metrics_are_warned_of_unless_a_token_is_needed() -> None:
    (line,) = warnings(config(admin_host="0.0.0.0"))
    assert line.startswith("admin_host: metrics are open to everybody who reaches 0.0.0.0")
    assert "--admin-token-file" in line
    assert warnings(config(admin_host="0.0.0.0", admin_token_file="t")) == []


def test_a_url_as_clients_libraries_want_it_is_warned_of() -> None:
    (line,) = warnings(config(Upstream.parse("a", "http://up/openai/v1", "/a")))
    assert line.startswith("upstream a: ")
    assert "/openai/v1/v1/models: leave /v1 out" in line
    assert warnings(config(Upstream.parse("a", "http://up/openai", "/a"))) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "unix:/run/a"])
def test_only_this_machine_gets_to(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_others_get_to(host: str) -> None:
    assert not is_loopback(host)
