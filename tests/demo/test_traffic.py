import asyncio
import random
from collections import Counter

from proxy.demo.traffic import WAVE_SECONDS, Crowd, Traffic, wanted, wish

CROWD = Crowd("sim", "/large", fewest=2, most=6, longest_answer=100)


def wishes(count: int) -> list[dict[str, object]]:
    chance = random.Random(1)
    return [wish(chance, CROWD).body for _ in range(count)]


def test_users_want_the_same_under_the_same_seed() -> None:
    assert wishes(5) == wishes(5)


def test_users_want_short_and_long_things_mostly_as_streams() -> None:
    chance = random.Random(1)
    seen = [wish(chance, CROWD) for _ in range(1000)]
    lengths = Counter(len(one.body["messages"][0]["content"]) // 4 for one in seen)
    assert min(lengths) == 24
    assert max(lengths) == 16_000
    assert lengths[24] > lengths[16_000] > 0
    assert 0.8 < sum(one.stream for one in seen) / 1000 < 0.9
    assert 0 < sum(one.patience is not None for one in seen) < 150
    assert all(one.patience is None for one in seen if not one.stream)
    assert {one.body["model"] for one in seen} == {"sim"}
    assert all(16 <= one.body["max_tokens"] <= 100 for one in seen)


def test_no_two_prompts_begin_alike() -> None:
    chance = random.Random(1)
    begins = {wish(chance, CROWD).body["messages"][0]["content"][:16] for _ in range(100)}
    assert len(begins) == 100


def test_the_number_of_users_goes_up_and_down_again() -> None:
    assert wanted(CROWD, 0) == 2
    assert wanted(CROWD, WAVE_SECONDS / 4) == 4
    assert wanted(CROWD, WAVE_SECONDS / 2) == 6
    assert wanted(CROWD, WAVE_SECONDS) == 2


def test_users_ask_at_their_path_and_bear_errors() -> None:
    """A server that closes each connection in mid-answer is asked again, until we stop."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal")
        writer.close()
        if len(asked) == 3:
            enough.set()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            running = asyncio.create_task(Traffic(url, [CROWD]).run())
            async with asyncio.timeout(30):
                await enough.wait()
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()

    enough = asyncio.Event()
    asyncio.run(run())
    assert set(asked) == {b"POST /large/v1/chat/completions HTTP/1.1\r\n"}
