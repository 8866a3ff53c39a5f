import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from channel_rig import LOOPS, Ear, NewLoop, listening, run, until
from records import begin, end

from proxy import sender as module
from proxy.channel import Record
from proxy.sender import Sender

each_loop = pytest.mark.parametrize("new_loop", LOOPS)
READY: Any = {"kind": "state", "worker": 3, "pid": os.getpid(), "state": "ready"}


def nothing() -> None:
    pass


class Worker:
    """A sender, and the exchanges that it has in flight."""

    def __init__(self, path: Path, collect: Callable[[], float | None] = nothing) -> None:
        self.begun: list[Record] = []
        self.sender = Sender(str(path), 3, lambda: self.begun, collect)
        self.sender.start()


@each_loop
def test_a_connection_begins_with_the_state_and_what_is_in_flight(
    tmp_path: Path, new_loop: NewLoop
) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        worker.begun = [begin(1, 10.0), begin(2, 11.0)]
        worker.sender.put(end(7, 12.0))
        await until(lambda: len(ear.records) == 4)
        assert ear.records == [READY, begin(1, 10.0), begin(2, 11.0), end(7, 12.0)]
        worker.sender.put(end(1, 13.0))
        await until(lambda: len(ear.records) == 5)
        await worker.sender.close()
        await until(lambda: ear.lost == [1])
        ear.receiver.close()

    run(new_loop, script())


@each_loop
def test_a_keeper_that_comes_back_hears_what_it_missed(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        first = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        await until(lambda: first.records)
        first.receiver.close()
        await until(lambda: worker.sender._transport is None)
        worker.sender.put(end(7, 12.0))
        worker.begun = [begin(8, 13.0)]
        second = await Ear().at(tmp_path / "s")
        await until(lambda: len(second.records) == 3)
        assert second.records == [READY, begin(8, 13.0), end(7, 12.0)]
        await worker.sender.close()
        second.receiver.close()

    run(new_loop, script())


@each_loop
def test_what_finds_no_room_is_counted_and_what_is_in_flight_told_again(
    tmp_path: Path, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 1000)

    async def script() -> None:
        worker = Worker(tmp_path / "s")
        for id in range(100):
            worker.sender.put(end(id, 10.0))
        worker.begun = [begin(200, 11.0)]
        ear = await Ear().at(tmp_path / "s")
        await until(lambda: "dropped" in ear.kinds())
        kept = ear.kinds().count("end")
        assert [record["id"] for record in ear.records[2 : 2 + kept]] == list(range(kept))
        assert ear.records[2 + kept :] == [
            {"kind": "dropped", "records": 100 - kept, "in_flight": [200]},
            begin(200, 11.0),
        ]
        worker.sender.put(end(300, 12.0))
        await until(lambda: ear.records[-1]["id"] == 300)
        assert ear.kinds().count("dropped") == 1
        await worker.sender.close()
        ear.receiver.close()

    run(new_loop, script())


@each_loop
def test_a_keeper_that_does_not_read_costs_a_bounded_amount(
    tmp_path: Path, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 100_000)
    monkeypatch.setattr(module, "_MAX_TRANSPORT_BYTES", 100_000)
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.001)

    async def script() -> None:
        unix = listening(tmp_path / "s")
        unix.setblocking(False)
        worker = Worker(tmp_path / "s")
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(unix)
        sent = 0
        while not worker.sender._dropped:
            worker.sender.put(end(sent, 10.0, pad="x" * 1000))
            sent += 1
            await asyncio.sleep(0 if sent % 50 else 0.005)
        transport = worker.sender._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= 300_000
        assert worker.sender._waiting_bytes <= 100_000
        raw = b""
        while b'"dropped"' not in raw:
            raw += await loop.sock_recv(connection, 1 << 20)
        assert b'{"kind":"dropped","records":1,"in_flight":[]}' in raw
        await worker.sender.close()
        connection.close()
        unix.close()

    run(new_loop, script())


@each_loop
def test_waking_collects_without_a_record(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        moved: list[Record] = []

        def collect() -> None:
            while moved:
                worker.sender.put(moved.pop())

        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s", collect)
        await until(lambda: ear.records)
        moved.append(end(1, 10.0))
        worker.sender.wake()
        await until(lambda: len(ear.records) == 2)
        assert worker.sender._timer is None
        assert not moved
        await worker.sender.close()
        ear.receiver.close()

    run(new_loop, script())


def test_records_of_a_moment_are_one_batch(tmp_path: Path) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        await until(lambda: ear.records)
        for id in range(5):
            worker.sender.put(end(id, 10.0))
        await until(lambda: len(ear.heard) == 2)
        assert [record["id"] for record in ear.heard[1][1]] == [0, 1, 2, 3, 4]
        await worker.sender.close()
        ear.receiver.close()

    run(asyncio.new_event_loop, script())


def test_a_record_that_cannot_be_sent_takes_no_other_with_it(tmp_path: Path) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        worker.sender.put(end(1, 10.0, model="\ud800"))
        worker.sender.put(end(2, 10.0, model="x" * 1_000_000))
        worker.sender.put(end(3, 10.0))
        await until(lambda: "dropped" in ear.kinds())
        assert ear.records[1:] == [
            end(3, 10.0),
            {"kind": "dropped", "records": 2, "in_flight": []},
        ]
        await worker.sender.close()
        ear.receiver.close()

    run(asyncio.new_event_loop, script())


def test_a_draining_worker_says_so_and_says_it_again(tmp_path: Path) -> None:
    async def script() -> None:
        first = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        await until(lambda: first.records)
        worker.sender.drain()
        await until(lambda: len(first.records) == 2)
        draining = READY | {"state": "draining"}
        assert first.records == [READY, draining]
        first.receiver.close()
        second = await Ear().at(tmp_path / "s")
        await until(lambda: second.records)
        assert second.records == [draining]
        await worker.sender.close()
        second.receiver.close()

    run(asyncio.new_event_loop, script())


@each_loop
def test_closing_sends_what_is_left(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        await until(lambda: ear.records)
        for id in range(2000):
            worker.sender.put(end(id, 10.0, pad="x" * 1000))
        await worker.sender.close(20)
        await until(lambda: ear.lost)
        assert ear.kinds().count("end") == 2000
        ear.receiver.close()

    run(new_loop, script())


@each_loop
def test_closing_ends_without_a_keeper(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        before = asyncio.all_tasks()
        worker = Worker(tmp_path / "nobody")
        worker.sender.put(end(1, 10.0))
        await worker.sender.close(0.05)
        assert asyncio.all_tasks() == before

    run(new_loop, script())


@each_loop
def test_closing_ends_with_a_keeper_that_does_not_read(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        unix = listening(tmp_path / "s")
        worker = Worker(tmp_path / "s")
        await until(lambda: worker.sender._transport)
        for id in range(2000):
            worker.sender.put(end(id, 10.0, pad="x" * 1000))
        await worker.sender.close(0.05)
        await until(lambda: worker.sender._transport is None)
        unix.close()

    run(new_loop, script())


@each_loop
def test_who_has_more_to_put_is_called_again(tmp_path: Path, new_loop: NewLoop) -> None:
    left: list[Record] = [end(1, 1.0), end(2, 2.0), end(3, 3.0)]

    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")

        def collect() -> float | None:
            if left:
                worker.sender.put(left.pop(0))
            return 0.001 if left else None

        worker = Worker(tmp_path / "s", collect)
        await until(lambda: len(ear.records) == 4)
        assert ear.records == [READY, end(1, 1.0), end(2, 2.0), end(3, 3.0)]
        await worker.sender.close()
        ear.receiver.close()

    run(new_loop, script())


@each_loop
def test_what_is_collected_in_turns_goes_together(
    tmp_path: Path, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Record] = [end(number, 1.0) for number in range(5)]
    sizes: list[int] = []
    transmit = Sender._transmit

    def noting(self: Sender, batch: bytes) -> None:
        sizes.append(len(orjson.loads(batch)))
        transmit(self, batch)

    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")

        def collect() -> float | None:
            if left and worker.sender._transport:
                worker.sender.put(left.pop(0))
            return 0.001 if left else None

        worker = Worker(tmp_path / "s", collect)
        await until(lambda: len(ear.records) == 6)
        assert sizes == [1, 2, 2, 1]  # the state, and then the turns
        await worker.sender.close()
        ear.receiver.close()

    monkeypatch.setattr(module, "_TOGETHER_RECORDS", 2)
    monkeypatch.setattr(Sender, "_transmit", noting)
    run(new_loop, script())


@each_loop
def test_what_waits_for_more_is_sent_at_the_end(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        worker = Worker(tmp_path / "s", lambda: 0.001)
        await until(lambda: ear.records)
        worker.sender.put(end(1, 1.0))
        await worker.sender.close()
        await until(lambda: ear.lost)
        assert ear.records == [READY, end(1, 1.0)]
        ear.receiver.close()

    run(new_loop, script())
