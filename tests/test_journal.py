import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from records import end

from proxy import journal
from proxy.channel import End
from proxy.journal import Journal, line

FULL: Any = {
    **{"time": 1700000000.25, "request_id": "r", "trace_id": "t", "headers_seconds": 0.1},
    **{"ttft_seconds": 0.2, "ttfv_seconds": 0.3, "first_at": 10.2, "last_at": 11.0},
    **{"decode_tokens_per_second": 40.5, "prefill_tokens_per_second": 100.0},
    **{"duration_seconds": 1.0, "client_wait_seconds": 0.0, "prompt_tokens": 9},
    **{"cached_prompt_tokens": 0, "output_tokens": 20, "reasoning_tokens": 5},
    **{"output_characters": 80, "token_source": "usage", "skipped": "no_count", "chunks": 7},
    **{"max_gap_seconds": 0.5, "stalls": 0, "stalled_seconds": 0.0, "context": 9},
    **{"engine": {"queue_seconds": 0.01}, "finish_reason": "stop"},
}


def test_a_line_has_the_keys_of_the_contract() -> None:
    assert line(end(1, 11.0, **FULL), 3) == {
        **{"time": "2023-11-14T22:13:20.250000Z", "request_id": "r", "trace_id": "t"},
        **{"upstream": "up", "model": "m", "api": "chat", "stream": True},
        **{"outcome": "completed", "code": 200, "ttft_seconds": 0.2, "ttfv_seconds": 0.3},
        **{"decode_tokens_per_second": 40.5, "duration_seconds": 1.0, "client_wait_seconds": 0.0},
        **{"prompt_tokens": 9, "cached_prompt_tokens": 0, "output_tokens": 20},
        **{"reasoning_tokens": 5, "token_source": "usage", "chunks": 7, "max_gap_seconds": 0.5},
        **{"stalls": 0, "concurrency": 3, "context": 9, "engine": {"queue_seconds": 0.01}},
        "finish_reason": "stop",
    }


def test_a_mean_of_streams_is_told_to_the_hundredth() -> None:
    told = line(end(1, 11.0), 3, 7.98765)
    assert (told["concurrency"], told["decode_concurrency"]) == (3, 7.99)


def test_what_is_unknown_is_absent() -> None:
    record = end(1, 11.0, time=1700000000.0, ttft_seconds=None)
    told = line(record, None)
    assert set(told) == {
        *("time", "upstream", "model", "api", "stream", "outcome", "code"),
    }
    assert told["time"] == "2023-11-14T22:13:20.000000Z"


Write = Callable[[int, bytes], int]


class Rig:
    """A request log in a folder of its own; `script` is what becomes of the next writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "requests.jsonl"
        self.said: list[str] = []
        self.script: list[Write] = []
        self.journal = Journal(str(self.path), self.said.append, self._put)

    def _put(self, fd: int, data: bytes) -> int:
        return self.script.pop(0)(fd, data) if self.script else os.write(fd, data)

    def write(self, *ids: str) -> None:
        for id in ids:
            self.journal.add(end(1, 11.0, request_id=id), None)
        self.journal.flush()

    def ids(self) -> list[str]:
        """What is in the file, once all is written."""
        self.journal.close()
        return ids(self.path)


def ids(path: Path) -> list[str]:
    return [orjson.loads(row)["request_id"] for row in path.read_bytes().splitlines()]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.journal.close()


def full(fd: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_lines_are_appended_and_not_for_the_world_to_read(rig: Rig) -> None:
    rig.path.write_bytes(b'{"request_id":"before"}\n')
    rig.write("a", "b")
    rig.write("c")
    assert rig.ids() == ["before", "a", "b", "c"]
    assert rig.path.stat().st_mode & 0o007 == 0
    assert (rig.journal.lost, rig.said) == (0, [])


def test_a_batch_is_one_write(rig: Rig) -> None:
    seen: list[bytes] = []

    def write(fd: int, data: bytes) -> int:
        seen.append(data)
        return len(data)

    rig.script.append(write)
    rig.write("a", "b", "c")
    assert rig.ids() == []
    assert [data.count(b"\n") for data in seen] == [3]


def test_a_full_disk_is_told_once_and_lines_are_counted(rig: Rig) -> None:
    rig.script += [full, full]
    rig.write("a", "b")
    rig.write("c")
    rig.write("d")
    assert rig.ids() == ["d"]
    assert rig.journal.lost == 3
    (said,) = rig.said
    assert str(rig.path) in said and "No space left on device" in said


def test_a_mistake_of_ours_is_told_without_its_text_and_stops_no_later_line(rig: Rig) -> None:
    def broken(fd: int, data: bytes) -> int:
        raise ValueError(data)

    rig.script.append(broken)
    rig.write("secret")
    rig.write("b")
    assert rig.ids() == ["b"]
    (said,) = rig.said
    assert "ValueError in test_journal.py" in said and "secret" not in said


def test_each_time_that_it_begins_is_told(rig: Rig) -> None:
    rig.script += [full, os.write, full]
    for id in ("a", "b", "c", "d"):
        rig.write(id)
    assert rig.ids() == ["b", "d"]
    assert (rig.journal.lost, len(rig.said)) == (2, 2)


def test_a_line_that_was_cut_does_not_spoil_the_next(rig: Rig) -> None:
    def some(fd: int, data: bytes) -> int:
        return os.write(fd, data[: data.index(b"\n") + 10])

    rig.script += [some, full, full]
    rig.write("a", "b", "c")
    rig.write("d")
    rig.write("e")
    rig.journal.close()
    first, cut, last = rig.path.read_bytes().splitlines()
    assert [orjson.loads(row)["request_id"] for row in (first, last)] == ["a", "e"]
    assert len(cut) == 9
    assert rig.journal.lost == 3


def test_after_rotation_the_new_file_is_written(rig: Rig, tmp_path: Path) -> None:
    written = threading.Event()

    def write(fd: int, data: bytes) -> int:
        size = os.write(fd, data)
        written.set()
        return size

    rig.script.append(write)
    rig.write("a")
    assert written.wait(10)
    rig.path.rename(tmp_path / "rotated")
    rig.journal.reopen()
    rig.write("b")
    assert rig.ids() == ["b"]
    assert ids(tmp_path / "rotated") == ["a"]


def test_a_file_that_cannot_be_opened_again_is_kept(rig: Rig, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    rig.path.rename(kept)
    rig.path.mkdir()
    rig.journal.reopen()
    rig.write("a")
    rig.journal.close()
    assert ids(kept) == ["a"]
    assert len(rig.said) == 1 and "Is a directory" in rig.said[0]


def test_a_reader_that_takes_nothing_does_not_stop_us(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MAX_WAITING_BYTES", 300)
    reads = threading.Event()

    def stuck(fd: int, data: bytes) -> int:
        assert reads.wait(10)
        return os.write(fd, data)

    rig.script.append(stuck)
    for id in ("a", "b", "c", "d"):  # of some 130 bytes each
        rig.write(id)
    assert rig.journal.lost == 2
    assert len(rig.said) == 1
    reads.set()
    assert rig.ids() == ["a", "b"]


def lost(rig: Rig, lines: int) -> None:
    """Wait until so many are."""
    for _ in range(3000):
        if rig.journal.lost == lines:
            return
        time.sleep(0.01)
    assert rig.journal.lost == lines


def test_a_file_that_cannot_be_opened_costs_its_lines_until_it_can(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "no" / "such")
    rig.write("a")
    rig.write("b")
    lost(rig, 2)
    assert len(rig.said) == 1
    rig.path.parent.mkdir(parents=True)
    rig.write("c")
    assert rig.ids() == ["c"]


def test_a_pipe_that_nobody_reads_yet_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "requests.jsonl")
    rig = Rig(tmp_path)
    rig.write("a")
    lost(rig, 1)
    reader = os.open(rig.path, os.O_RDONLY | os.O_NONBLOCK)
    rig.write("b")
    rig.journal.close()
    told = [orjson.loads(row)["request_id"] for row in os.read(reader, 65536).splitlines()]
    os.close(reader)
    assert (told, rig.journal.lost) == (["b"], 1)


def test_a_dash_is_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    record: End = end(1, 11.0, request_id="a")
    log = Journal("-")
    log.add(record, 1)
    log.reopen()
    log.close()
    assert orjson.loads(capfd.readouterr().out)["request_id"] == "a"
