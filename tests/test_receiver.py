import asyncio
from pathlib import Path

import orjson
import pytest
from channel_rig import LOOPS, Ear, NewLoop, run, until

from proxy.channel import MAX_BATCH_BYTES


def framed(batch: object) -> bytes:
    data = orjson.dumps(batch)
    return len(data).to_bytes(4, "big") + data


each_loop = pytest.mark.parametrize("new_loop", LOOPS)


@each_loop
def test_batches_arrive_whole_and_in_order_however_they_are_cut(
    tmp_path: Path, new_loop: NewLoop
) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        _, writer = await asyncio.open_unix_connection(tmp_path / "s")
        data = framed([{"a": 1}, {"b": 2}]) + framed([]) + framed([{"c": "é"}])
        for place in range(len(data)):
            writer.write(data[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(data)
        await until(lambda: len(ear.heard) == 6)
        batches = [[{"a": 1}, {"b": 2}], [], [{"c": "é"}]]
        assert ear.heard == [(1, batch) for batch in batches * 2]
        writer.close()
        await until(lambda: ear.lost == [1])
        ear.receiver.close()

    run(new_loop, script())


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    (MAX_BATCH_BYTES + 1).to_bytes(4, "big"),
    framed({"kind": "state"}),
    framed([1, 2]),
    b"\0\0\0\x02{]",
    b"\0\0\0\0",
]


@each_loop
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_ends_its_connection_and_no_other(
    tmp_path: Path, new_loop: NewLoop, garbage: bytes
) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        _, good = await asyncio.open_unix_connection(tmp_path / "s")
        good.write(framed([{"n": 1}]))
        await until(lambda: ear.heard)
        reader, bad = await asyncio.open_unix_connection(tmp_path / "s")
        bad.write(framed([{"n": 2}]) + garbage + framed([{"n": 3}]))
        assert await reader.read() == b""
        await until(lambda: ear.lost == [2])
        good.write(framed([{"n": 4}]))
        await until(lambda: len(ear.heard) == 3)
        assert ear.heard == [(1, [{"n": 1}]), (2, [{"n": 2}]), (1, [{"n": 4}])]
        good.close()
        bad.close()
        await until(lambda: ear.lost == [2, 1])
        ear.receiver.close()

    run(new_loop, script())


@each_loop
def test_what_was_sent_before_the_end_is_taken(tmp_path: Path, new_loop: NewLoop) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        sent = [[{"n": number, "pad": "x" * 10_000}] for number in range(100)]
        writer.write(b"".join(map(framed, sent)))
        await ear.receiver.drain()
        assert [batch for _, batch in ear.heard] == sent
        ear.receiver.close()
        assert await reader.read() == b""
        assert ear.lost == []
        writer.close()

    run(new_loop, script())


def test_draining_ends_even_if_somebody_never_stops(tmp_path: Path) -> None:
    async def script() -> None:
        ear = await Ear().at(tmp_path / "s")
        _, writer = await asyncio.open_unix_connection(tmp_path / "s")

        async def talk() -> None:
            while True:
                writer.write(framed([{}]))
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            talking = tasks.create_task(talk())
            await ear.receiver.drain(quiet_seconds=0.1, limit_seconds=0.3)
            talking.cancel()
        assert ear.heard
        ear.receiver.close()
        writer.close()

    run(asyncio.new_event_loop, script())
