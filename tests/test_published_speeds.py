"""Speeds that others have published, set on the simulated engine, come out of /metrics.

Time is injected: every answer is read at the moment at which the engine wrote it.
"""

import asyncio
import math
from typing import Any

import orjson
import pytest
from engine.rig import Played, at_once, post
from exchanges import OURS, WALL
from playing import ASK, EVENTS

from proxy.channel import Record
from proxy.engine import EngineSettings, build_app
from proxy.exchange import Exchange
from proxy.exposition import TEXT
from proxy.formats import interface
from proxy.headers import Fields
from proxy.keeper import Keeper
from proxy.outcome import Outcome
from proxy.scrape import Scrape
from proxy.tokens import Learned

PATH = "/v1/chat/completions"


def answers(settings: EngineSettings, users: int) -> list[Played]:
    """What each of so many users gets who ask at the time 0."""
    body = ASK | {"stream_options": {"include_usage": True}}

    async def asked() -> list[Played]:
        app = build_app(settings, clock=asyncio.get_running_loop().time)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(post(app, PATH, body)) for _ in range(users)]
        return [task.result() for task in tasks]

    return at_once(asked())


def metered(number: int, played: Played) -> tuple[Record, Record, Record]:
    """What a worker tells of it."""
    face = interface(PATH)
    call = face.call(dict(ASK), PATH)
    exchange = Exchange(
        number, "up", Fields([]), OURS, WALL, call, face, Learned(), 0.0, stall_seconds=2.0
    )
    exchange.code, exchange.answered = played.status, True
    exchange.meter.head(played.status, EVENTS, "", played.headers_at or 0.0)
    for at, data in played.writes:
        exchange.meter.read(data, at)
    exchange.t_end = played.writes[-1][0]
    exchange.meter.end(exchange.t_end)
    exchange.outcome = Outcome.COMPLETED
    begun, moved = exchange.begin(), exchange.progress()
    assert moved is not None
    return begun, moved, exchange.end()


def scraped(*rounds: list[Played]) -> Scrape:
    """The metrics after these rounds, one hour after the other."""
    keeper = Keeper(upstreams=["up"], max_models=9, stall_seconds=2.0, buckets={}, log_path=None)
    number = 0
    for hour, round_ in enumerate(rounds):
        told = [metered(number := number + 1, played) for played in round_]
        for records in zip(*told, strict=True):  # all begin, all move, all end
            keeper.take(1, [later(record, 3600.0 * hour) for record in records])
    return Scrape(TEXT.render(keeper.collect()).decode(), 0.0)


def later(record: Record, seconds: float) -> dict[str, Any]:
    moved: dict[str, Any] = orjson.loads(orjson.dumps(record))
    for key in ("at", "first_at", "last_at"):
        if key in moved:
            moved[key] += seconds
    return moved


def decode_rate(scrape: Scrape, concurrency: str) -> float:
    """Tokens per second: the geometric mean of all streams of this class."""
    cell = "tokometer_cell_tpot"
    streams = scrape.total(f"{cell}_streams_total", concurrency=concurrency)
    logs = scrape.total(f"{cell}_log_sum_total", concurrency=concurrency)
    return 1e6 / math.exp(logs / streams)


@pytest.mark.parametrize(("alone", "each_of_8"), [(157, 81), (107, 32)])
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_a_speed_alone_and_that_at_8_users_show_by_concurrency(
    alone: float, each_of_8: float, jitter: float
) -> None:
    slowdown = (alone / each_of_8 - 1) / 7
    settings = EngineSettings(
        ttft=0.2, rate=alone, concurrency_slowdown=slowdown, jitter=jitter, answer_tokens=600
    )
    scrape = scraped(answers(settings, 1), answers(settings, 8))
    assert scrape.total("tokometer_cell_tpot_streams_total", concurrency="1") == 1
    assert scrape.total("tokometer_cell_tpot_streams_total", concurrency="8-15") == 8
    assert scrape.total("tokometer_cell_tpot_streams_total") == 9
    assert decode_rate(scrape, "1") == pytest.approx(alone, rel=0.02)
    assert decode_rate(scrape, "8-15") == pytest.approx(each_of_8, rel=0.02)


@pytest.mark.parametrize("tokens", [1, 4])
def test_tokens_that_come_together_show_in_chunks_and_not_in_the_decode_rate(tokens: int) -> None:
    settings = EngineSettings(ttft=0.2, rate=100, tokens_per_chunk=tokens, answer_tokens=240)
    scrape = scraped(answers(settings, 1))
    assert decode_rate(scrape, "1") == pytest.approx(100, rel=0.005)
    assert scrape.total("tokometer_tokens_per_chunk_sum") == tokens
    assert scrape.total("tokometer_burst_ratio_sum") == 0
    assert scrape.total("tokometer_burst_ratio_count") == 1
    characters = scrape.total("tokometer_output_characters_total")
    rate = scrape.total("tokometer_decode_characters_per_second_sum")
    assert rate == pytest.approx(characters / 240 * 100, rel=0.03)
