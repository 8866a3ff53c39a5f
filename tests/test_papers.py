import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.papers import MOST_BYTES, Paper, content, read
from proxy.settings import SettingError


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("upstream_ca", "give a PEM file with --upstream-ca"),
        ("upstream_key", "give a PEM file with --upstream-key"),
        ("tls_cert", "give a PEM file with --tls-cert"),
        ("admin_token_file", "give a file with --admin-token-file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_setting(
    tmp_path: Path, setting: str, remedy: str
) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(SettingError) as refusal:
        read({setting: str(missing)})
    said = f"{setting}: cannot read {missing} (No such file or directory): {remedy}"
    assert str(refusal.value) == said


@pytest.mark.parametrize("path", ["/", "a\0b"])
def test_what_is_no_path_of_a_file_is_refused(path: str) -> None:
    with pytest.raises(SettingError, match=r"^tls_key: cannot read .*: give a PEM file with"):
        read({"tls_key": path})


def test_a_file_without_end_is_read_to_a_limit(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(MOST_BYTES))
    assert read({"tls_cert": str(large)}) == {"tls_cert": Paper(str(large), bytes(MOST_BYTES))}
    with pytest.raises(SettingError, match=r"^tls_cert: /dev/zero has more than 1 MiB: give a"):
        read({"tls_cert": "/dev/zero"})


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(b"one")
            file.write(b"x" * 200_000)  # more than it holds

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(write)
        assert content(str(pipe)) == b"one" + b"x" * 200_000
        writing.result()


def test_a_pipe_to_which_nobody_writes_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.papers._PIPE_SECONDS", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SettingError) as refusal:
        read({"tls_key": str(pipe)})
    why = "a pipe that gave nothing in 0.01 s"
    said = f"tls_key: cannot read {pipe} ({why}): give a PEM file with --tls-key"
    assert str(refusal.value) == said
