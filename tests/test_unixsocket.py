import os
import socket
from pathlib import Path

import pytest

from proxy.config import Config, Upstream
from proxy.settings import SettingError
from proxy.sockets import opened
from proxy.unixsocket import inode, listen_unix, remove


def at(path: Path) -> str:
    return f"unix:{path}"


def reaches(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def test_clients_get_through(tmp_path: Path) -> None:
    with listen_unix(at(tmp_path / "s")):
        assert reaches(tmp_path / "s")
        assert os.listdir(tmp_path) == ["s"]


def test_what_a_killed_process_left_behind_is_replaced(tmp_path: Path) -> None:
    listen_unix(at(tmp_path / "s")).close()
    assert (tmp_path / "s").exists() and not reaches(tmp_path / "s")
    with listen_unix(at(tmp_path / "s")):
        assert reaches(tmp_path / "s")


def test_a_path_in_use_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(at(path)), pytest.raises(SettingError) as refusal:
        listen_unix(at(path), "admin_")
    assert str(refusal.value) == (
        f"admin_host: {path} is in use: stop what listens there, or choose another path with "
        "--admin-host"
    )


def test_a_successor_takes_the_path_and_what_waits_is_the_predecessors(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(at(path)) as old, socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(str(path))
        with listen_unix(at(path), replace=True) as new, socket.socket(socket.AF_UNIX) as later:
            later.connect(str(path))
            old.accept()[0].close()
            new.accept()[0].close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    for replace in (False, True):
        with pytest.raises(SettingError, match="is no socket: give another path with --host"):
            listen_unix(at(path), replace=replace)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("unix:relative", "needs its whole path"),
        ("unix:", "needs its whole path"),
        ("unix://host/path", "needs its whole path"),
        ("unix:/" + "x" * 120, "at most"),
        ("unix:/no/such/folder/s", "cannot listen on /no/such/folder/s .No such file"),
    ],
)
def test_an_unusable_path_is_one_line(address: str, why: str) -> None:
    with pytest.raises(SettingError, match=f"^host: .*{why}") as refusal:
        listen_unix(address)
    assert "\n" not in str(refusal.value)


def test_a_path_is_taken_away_unless_it_is_a_successors(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(at(path)):
        own = inode(at(path))
        with listen_unix(at(path), replace=True):
            remove(at(path), own)
            assert reaches(path)
            remove(at(path), inode(at(path)))
            assert not path.exists()
    remove(at(path), own)
    assert inode(at(path)) is None


def test_paths_are_gone_at_the_end_even_if_the_start_failed(tmp_path: Path) -> None:
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    data, admin = (at(tmp_path / name) for name in ("data", "admin"))
    with opened(Config((upstream,), host=data, admin_host=admin, workers=2)) as sockets:
        assert (sockets.address, sockets.admin_address) == (data, admin)
        assert reaches(tmp_path / "data") and reaches(tmp_path / "admin")
    assert os.listdir(tmp_path) == []
    (tmp_path / "admin").write_text("precious")
    with (
        pytest.raises(SettingError, match="admin_host"),
        opened(Config((upstream,), host=data, admin_host=admin)),
    ):
        pass
    assert os.listdir(tmp_path) == ["admin"]
