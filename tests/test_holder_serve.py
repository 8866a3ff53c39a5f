"""Files of certificates and tokens that change, or go, under a whole proxy."""

import http.client
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from serve_rig import PATIENCE, Proxy, eventually, serving
from test_supervisor_losses import linux, titled
from test_tls import Files, files, server_of

TOKEN = "0123456789abcdef"


@contextmanager
def https_upstream(own: Files) -> Iterator[str]:
    """The URL of an upstream that answers every connection once."""
    context = server_of(own).context.current
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client = listener.accept()[0]
                except OSError:
                    return
                try:
                    with context.wrap_socket(client, server_side=True) as tls:
                        tls.recv(65536)
                        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                except OSError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def shown(proxy: Proxy, trusted: Files, own: Files | None = None) -> tuple[object, int] | None:
    """Serial of the proxy's certificate and status of an answer; None if it lets nobody in."""
    context = ssl.create_default_context(cafile=trusted.ca)
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    client = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=PATIENCE, context=context)
    try:
        client.connect()
        certificate: Any = client.sock.getpeercert()
        client.request("GET", "/v1/models")
        return certificate["serialNumber"], client.getresponse().status
    except OSError:
        return None
    finally:
        client.close()


def metrics(proxy: Proxy, token: str) -> int:
    client = http.client.HTTPConnection("127.0.0.1", proxy.admin_port, timeout=PATIENCE)
    try:
        client.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        return client.getresponse().status
    except OSError:
        return 0
    finally:
        client.close()


def replaced(proxy: Proxy, name: str) -> None:
    """Kills it, and waits for the next one."""
    old = titled(proxy, name)
    os.kill(old, signal.SIGKILL)
    assert proxy.line() == f"tokometer: {name} ended by SIGKILL, starting another\n"
    assert eventually(lambda: proxy_has(proxy, name, old))


def proxy_has(proxy: Proxy, name: str, not_pid: int) -> bool:
    try:
        return titled(proxy, name) != not_pid
    except (AssertionError, FileNotFoundError):
        return False


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@linux
def test_who_is_replaced_has_what_the_others_have_whatever_became_of_the_files(
    tmp_path: Path, authority: trustme.CA
) -> None:
    own = files(tmp_path, authority)
    them = files(tmp_path, authority, "them")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    for_proxy = [tmp_path / "client-ca", tmp_path / "upstream-ca"]
    for path in for_proxy:
        path.write_bytes(Path(own.ca).read_bytes())
    with (
        https_upstream(them) as url,
        serving(
            *("--upstream", url, "--tls-cert", own.cert, "--tls-key", own.key),
            *("--client-ca", str(for_proxy[0]), "--upstream-ca", str(for_proxy[1])),
            *("--admin-token-file", str(token), "--probe-interval=1"),
        ) as proxy,
    ):
        proxy.ready()
        before = shown(proxy, them, them)
        assert before is not None and before[1] == 200
        for gone in (own.key, str(for_proxy[0]), str(for_proxy[1]), str(token)):
            Path(gone).unlink()
        files(tmp_path, authority)  # of which nobody was told
        Path(own.key).unlink()
        replaced(proxy, "worker 0")
        assert eventually(lambda: shown(proxy, them, them) == before)
        assert shown(proxy, them) is None
        replaced(proxy, "keeper")
        assert eventually(lambda: metrics(proxy, TOKEN) == 200)
        replaced(proxy, "scout")
        proxy.signal(signal.SIGHUP)
        said = {proxy.line().split(":")[2].strip() for _ in range(3)}
        assert said == {"tls_key", "upstream_ca", "admin_token_file"}
        assert shown(proxy, them, them) == before
        assert metrics(proxy, TOKEN) == 200
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""


@linux
def test_after_a_hangup_all_that_run_and_all_that_follow_have_the_new_ones(
    tmp_path: Path, authority: trustme.CA
) -> None:
    own, old, new = (files(tmp_path, name=name) for name in ("own", "old", "new"))
    token, client_ca, upstream_ca = (tmp_path / name for name in ("token", "ca", "up"))
    token.write_text(TOKEN)
    for path in (client_ca, upstream_ca):
        path.write_bytes(Path(old.ca).read_bytes())
    with (
        https_upstream(new) as url,
        serving(
            *("--upstream", url, "--tls-cert", own.cert, "--tls-key", own.key, "--workers=2"),
            *("--client-ca", str(client_ca), "--upstream-ca", str(upstream_ca)),
            *("--admin-token-file", str(token), "--probe-interval=1"),
        ) as proxy,
    ):
        proxy.ready()
        before = shown(proxy, own, old)
        assert before is not None and before[1] == 502
        assert shown(proxy, own, new) is None
        for path in (client_ca, upstream_ca):
            path.write_bytes(Path(new.ca).read_bytes())
        token.write_text("fedcba9876543210")
        proxy.signal(signal.SIGHUP)
        # Connections are spread over the workers: after so many nobody is left with the old ones.
        assert eventually(
            lambda: all(shown(proxy, own, new) == (before[0], 200) for _ in range(12))
        )
        assert shown(proxy, own, old) is None
        assert eventually(lambda: metrics(proxy, "fedcba9876543210") == 200)
        assert metrics(proxy, TOKEN) == 401
        replaced(proxy, "worker 1")
        replaced(proxy, "keeper")
        assert eventually(
            lambda: all(shown(proxy, own, new) == (before[0], 200) for _ in range(12))
        )
        assert eventually(lambda: metrics(proxy, "fedcba9876543210") == 200)
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""
