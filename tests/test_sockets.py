import os
import socket
import stat
from pathlib import Path

import pytest

from proxy.config import Config, Upstream
from proxy.settings import SettingError
from proxy.sockets import SPREADS, listen, listen_shared, opened


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_port_0_takes_a_free_one() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert port_of(listener) > 0
        socket.create_connection(listener.getsockname(), timeout=5).close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_port_in_use_is_one_line_with_a_remedy(count: int) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = port_of(taken)
        with pytest.raises(SettingError) as refusal:
            listen_shared("127.0.0.1", port, count)
    assert str(refusal.value) == (
        f"port: 127.0.0.1:{port} is in use: stop what listens there, "
        "or choose another port with --port"
    )


@pytest.mark.skipif(not SPREADS, reason="one socket serves all workers here")
def test_a_port_that_another_program_shares_is_in_use_too() -> None:
    shared = listen_shared("127.0.0.1", 0, 2)
    with pytest.raises(SettingError, match="is in use"):
        listen_shared("127.0.0.1", port_of(shared[0]), 2)
    for one in shared:
        one.close()


def test_the_admin_port_is_named_by_its_own_setting() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(SettingError) as refusal:
        listen("127.0.0.1", port_of(taken), "admin_")
    assert str(refusal.value).startswith("admin_port: ")
    assert str(refusal.value).endswith("--admin-port")


# 192.0.2.0/24 is for documentation: no machine has it.
@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a" * 300, "x..y"])
def test_an_address_of_nobody_is_one_line_with_a_remedy(host: str) -> None:
    with pytest.raises(SettingError) as refusal:
        listen(host, 0)
    assert str(refusal.value).startswith(f"host: cannot listen on {host} (")
    assert "Errno" not in str(refusal.value)
    assert str(refusal.value).endswith("give an address of this machine with --host")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may listen anywhere")
def test_a_forbidden_port_is_one_line_with_a_remedy() -> None:
    with pytest.raises(SettingError, match="choose a port from 1024 up with --port"):
        listen("127.0.0.1", 1)


def test_each_of_several_processes_has_a_listener_on_the_same_port() -> None:
    listeners = listen_shared("127.0.0.1", 0, 3)
    assert len(listeners) == 3
    assert len({port_of(one) for one in listeners}) == 1
    assert len(set(listeners)) == (3 if SPREADS else 1)
    for one in listeners:
        one.close()


def test_all_sockets_are_there_and_go_away_again() -> None:
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    with opened(Config((upstream,), port=0, admin_port=0, workers=2)) as sockets:
        folder = Path(sockets.channel_path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(sockets.channel_path)
        port = port_of(sockets.admin)
    assert not folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_long_temporary_folder_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    with opened(Config((upstream,), port=0, admin_port=0)) as sockets:
        assert Path(sockets.channel_path).is_socket()


def test_no_writable_temporary_folder_is_one_line_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    with (
        pytest.raises(SettingError, match="name a writable folder in TMPDIR"),
        opened(Config((upstream,), port=0, admin_port=0)),
    ):
        pass


def test_a_process_keeps_open_only_what_it_serves() -> None:
    upstream = Upstream("default", "http", "127.0.0.1", 8000)
    with opened(Config((upstream,), port=0, admin_port=0, workers=2)) as sockets:
        sockets.keep(sockets.data[1])
        open_ones = [one for one in (*sockets.data, sockets.admin) if one.fileno() != -1]
        assert open_ones == [sockets.data[1]]
