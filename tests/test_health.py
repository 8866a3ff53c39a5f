import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.config import Config, Upstream
from proxy.health import HealthSettings, answers, check, noted
from proxy.settings import SettingError
from proxy.sockets import address, listen, opened


@contextmanager
def answering(line: bytes, host: str = "127.0.0.1") -> Iterator[str]:
    """Somebody who answers so; the address."""
    heard: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as client:
            heard.append(client.recv(1000))
            client.sendall(line)

    with listen(host, 0) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield address(listener, host)
        thread.join()
    assert heard[0].startswith(b"GET /")


@pytest.mark.parametrize(
    ("line", "well"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 503 No\r\n\r\n", False),
        (b"HTTP/1.1 401 No\r\n\r\n", False),
        (b"SSH-2.0", False),
        (b"", False),
    ],
)
def test_only_200_is_well(tmp_path: Path, line: bytes, well: bool) -> None:
    for host in ("127.0.0.1", "::1", f"unix:{tmp_path / 's'}"):
        with answering(line, host) as admin:
            assert answers(admin, "/healthz") is well


def test_nobody_there_is_not_well(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as listener:
        admin = address(listener, "")
    assert not answers(admin, "/healthz")
    assert not answers(f"unix:{tmp_path / 'none'}", "/healthz")


def test_it_is_told_in_a_line() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n") as admin:
        assert check(HealthSettings(admin=admin)) == (True, f"{admin}: healthy")
    with answering(b"HTTP/1.1 503 No\r\n\r\n") as admin:
        expected = (False, f"{admin}: /readyz does not answer 200")
        assert check(HealthSettings(admin=admin, ready=True)) == expected


@pytest.mark.parametrize(
    "admin", ["here", "https://127.0.0.1:1", "http://127.0.0.1", "http://[::1", "unix:here", ""]
)
def test_what_is_no_address_is_one_line(admin: str) -> None:
    with pytest.raises(SettingError, match=r"^admin: no such address: give one such as"):
        answers(admin, "/healthz")


def test_the_proxy_that_started_last_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    config = Config((upstream,), port=0, admin_port=0)
    with opened(config) as old:
        for note in tmp_path.glob("tokometer-*/admin"):
            os.utime(note, (1, 1))
        with opened(config) as new:
            assert noted() == new.admin_address != old.admin_address


def test_a_note_that_is_none_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "tokometer-x").mkdir()
    (tmp_path / "tokometer-x/admin").write_bytes(b"\xff")
    with pytest.raises(SettingError, match="name one with --admin URL"):
        noted()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_what_another_user_puts_into_the_folder_of_all_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours, theirs = tmp_path / "ours", tmp_path / "tokometer-x"
    ours.write_text("http://127.0.0.1:9464")
    theirs.mkdir()
    (theirs / "admin").symlink_to(ours)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(SettingError, match="name one with --admin URL"):
        noted()
    os.chown(theirs, 0, 0)
    os.chown(theirs / "admin", 65534, 65534, follow_symlinks=False)
    with pytest.raises(SettingError, match="name one with --admin URL"):
        noted()


def test_nobody_to_be_found_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: [])
    with pytest.raises(SettingError, match="name one with --admin URL"):
        noted()


def test_sockets_say_where_they_are(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as four, listen("::1", 0) as six:
        assert address(four, "", "https") == f"https://127.0.0.1:{four.getsockname()[1]}"
        assert address(six, "") == f"http://[::1]:{six.getsockname()[1]}"
    host = f"unix:{tmp_path / 's'}"
    with listen(host, 0) as unix:
        assert unix.family == socket.AF_UNIX
        assert address(unix, host) == host
