import os
import stat
import tempfile
from pathlib import Path

import pytest

from proxy.shared import Shared, as_file


def in_a_child(shared: Shared) -> bytes | None:
    """What a process that was forked reads."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            found = shared.read()
            os.write(writer, b"none" if found is None else found)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_what_was_written_last_is_read() -> None:
    shared = Shared(10)
    assert shared.read() is None
    for content in (b"0123456789", b"", b"abc"):
        shared.write(content)
        assert shared.read() == content
    with pytest.raises(ValueError, match="room"):
        shared.write(b"0123456789a")
    assert in_a_child(shared) == b"abc"


def test_what_is_written_after_the_fork_is_read_in_the_child() -> None:
    shared = Shared(10)
    shared.write(b"before")
    go_on, told = os.pipe()
    answer, said = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.read(go_on, 1)
            os.write(said, shared.read() or b"none")
        finally:
            os._exit(0)
    shared.write(b"after")
    os.write(told, b"x")
    assert os.read(answer, 100) == b"after"
    os.waitpid(pid, 0)
    for end in (go_on, told, answer, said):
        os.close(end)


def test_what_is_half_written_is_not_read() -> None:
    shared = Shared(10)
    shared.write(b"0123456789")
    shared._memory[-1:] = b"x"
    assert shared.read() is None


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_has_the_text_is_ours_alone_and_goes_away(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("no files in memory here")
    with as_file(b"text") as path:
        assert [Path(path).read_bytes() for _ in range(2)] == [b"text", b"text"]
        assert len(list(tmp_path.iterdir())) == (0 if in_memory else 1)
        if not in_memory:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not Path(path).exists()
    assert not list(tmp_path.iterdir())
