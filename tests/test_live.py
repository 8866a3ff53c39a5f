from typing import Any

import pytest
from records import begin, end, output

from proxy.channel import Output
from proxy.labels import Models
from proxy.live import Beside, Exchange, Live


@pytest.fixture
def live() -> Live:
    return Live(Models(100, lambda: None))


def started(live: Live, connection: int, id: int, at: float, **more: Any) -> Exchange:
    exchange = live.begin(connection, begin(id, at, **more))
    assert exchange is not None
    return exchange


def moved(live: Live, exchange: Exchange, record: Output) -> None:
    live.answer(exchange, record["model"])
    exchange.take(record)


def test_concurrency_at_arrival_counts_the_streams_in_flight_and_itself(live: Live) -> None:
    first = started(live, 1, 1, at=10.0)
    second = started(live, 2, 1, at=11.0)
    assert live.end(first, end(1, at=12.0)) == Beside(1, None)
    third = started(live, 1, 2, at=13.0)
    assert live.end(second, end(1, at=14.0)) == Beside(2, None)
    assert live.end(third, end(2, at=15.0)) == Beside(2, None)


def test_concurrency_of_decode_is_a_mean_over_time(live: Live) -> None:
    one = started(live, 1, 1, at=10.0)
    two = started(live, 2, 2, at=13.0)
    three = started(live, 2, 3, at=14.0)
    live.end(two, end(2, at=15.0))
    live.end(three, end(3, at=15.0))
    # alone for 2 s, two of us for 1 s, three for 1 s, alone for 1 s
    beside = live.end(one, end(1, at=17.0, first_at=11.0, last_at=16.0))
    assert beside and beside.at_arrival == 1
    assert beside.decoding == pytest.approx((2 * 1 + 1 * 2 + 1 * 3 + 1 * 1) / 5)


def test_records_of_another_worker_may_come_late(live: Live) -> None:
    mine = started(live, 1, 1, at=10.05)
    late = started(live, 2, 1, at=10.0)
    live.end(late, end(1, at=11.0))
    beside = live.end(mine, end(1, at=12.05, first_at=10.05, last_at=12.05))
    assert beside and beside.at_arrival == 2
    assert beside.decoding == pytest.approx((0.95 * 2 + 1.05) / 2)


def test_other_upstreams_models_and_plain_requests_are_not_beside(live: Live) -> None:
    started(live, 1, 1, at=10.0, upstream="elsewhere")
    started(live, 1, 2, at=10.0, model="other")
    plain = started(live, 1, 3, at=10.0, stream=False)
    stream = started(live, 1, 4, at=10.0)
    assert live.end(stream, end(4, at=11.0)) == Beside(1, None)
    assert live.end(plain, end(3, at=11.0, stream=False)) is None


def test_what_turns_out_to_be_a_stream_has_been_one_all_the_time(live: Live) -> None:
    surprise = started(live, 1, 1, at=10.0, stream=False)
    other = started(live, 1, 2, at=11.0)
    live.streams(surprise)
    live.streams(surprise)
    assert live.end(other, end(2, at=12.0)) == Beside(2, None)
    assert live.end(surprise, end(1, at=13.0)) == Beside(1, None)


def test_an_alias_runs_beside_the_model_it_stands_for(live: Live) -> None:
    first = started(live, 1, 1, at=10.0, model="latest")
    second = started(live, 1, 2, at=11.0, model="latest")
    third = started(live, 1, 3, at=12.0, model="m-1")
    live.answer(first, "m-1")
    fourth = started(live, 1, 4, at=13.0, model="latest")
    assert [live.label(stream) for stream in (first, second, third, fourth)] == ["m-1"] * 4
    for stream in (second, third, fourth, first):
        beside = live.end(stream, end(stream.id, at=20.0, model="latest"))
        assert beside == Beside(stream.id, None)  # they came in the order of their ids


def test_a_router_moves_only_the_stream_that_it_names(live: Live) -> None:
    live.answer(started(live, 1, 1, at=10.0, model="auto"), "small")
    other = started(live, 1, 2, at=11.0, model="auto")
    live.answer(other, "big")
    third = started(live, 1, 3, at=12.0, model="small")
    assert live.end(other, end(2, at=13.0)) == Beside(1, None)
    assert live.end(third, end(3, at=14.0)) == Beside(2, None)


def test_phases_go_by_label_and_wait_until_the_first_output(live: Live) -> None:
    waiting = started(live, 1, 1, at=10.0)
    assert live.phases() == {("up", "unknown", "waiting"): 1}
    decoding = started(live, 1, 2, at=10.0)
    started(live, 1, 3, at=10.0, stream=False)
    moved(live, decoding, output(2, 11.0, tokens=1))
    assert live.phases() == {("up", "m", "waiting"): 1, ("up", "m", "decoding"): 1}
    live.end(waiting, end(1, at=12.0))
    assert live.phases() == {("up", "m", "decoding"): 1}


def test_a_stream_is_stalled_when_it_is_silent_for_longer_than_the_threshold(live: Live) -> None:
    stream = started(live, 1, 1, at=10.0)
    assert live.stalled(now=99.0, stall_seconds=2.0) == {}
    moved(live, stream, output(1, 20.0))
    assert live.stalled(now=22.0, stall_seconds=2.0) == {}
    assert live.stalled(now=22.1, stall_seconds=2.0) == {("up", "m"): 1}
    moved(live, stream, output(1, 22.05))
    assert live.stalled(now=22.1, stall_seconds=2.0) == {}


def test_a_lost_worker_leaves_what_is_known_of_its_exchanges(live: Live) -> None:
    started(live, 2, 1, at=10.0)
    stream = started(live, 1, 1, at=10.0, time=1.7e9, request_id="r", trace_id="t")
    moved(live, stream, output(1, 11.0, first_at=10.5, ttft_seconds=0.5, tokens=3, characters=9))
    moved(live, stream, output(1, 12.0, tokens=4, characters=9))
    started(live, 1, 2, at=11.0, stream=False, model="")
    assert live.lost(1, now=13.0) == [
        {
            **{"kind": "end", "id": 1, "time": 1.7e9, "at": 13.0, "request_id": "r"},
            **{"trace_id": "t", "upstream": "up", "model": "m", "api": "chat", "stream": True},
            **{"outcome": "aborted", "answered": True, "duration_seconds": 3.0},
            **{"ttft_seconds": 0.5, "first_at": 10.5, "last_at": 12.0, "output_tokens": 7},
            **{"output_characters": 18, "token_source": "estimate", "skipped": "not_completed"},
        },
        {
            **{"kind": "end", "id": 2, "at": 13.0, "upstream": "up", "model": "", "api": "chat"},
            **{"stream": False, "outcome": "aborted", "answered": False, "duration_seconds": 2.0},
        },
    ]
    live.forget(1, (), now=13.0)
    assert [(stream.connection, stream.id) for stream in live] == [(2, 1)]


def test_what_a_worker_no_longer_has_in_flight_is_forgotten(live: Live) -> None:
    for id in (1, 2, 3):
        started(live, 1, id, at=10.0)
    live.forget(1, [2, 99], now=12.0)
    assert [stream.id for stream in live] == [2]
    stream = live.find(1, 2)
    assert stream is not None
    assert live.end(stream, end(2, at=14.0, first_at=11.0, last_at=13.0)) == Beside(3, 2.0)


def test_a_begin_that_is_told_twice_is_one_exchange(live: Live) -> None:
    stream = started(live, 1, 1, at=10.0)
    assert live.begin(1, begin(1, 10.0)) is None
    assert live.find(1, 1) is stream
    assert live.end(stream, end(1, at=11.0)) == Beside(1, None)
    assert live.find(1, 1) is None
    assert live.find(2, 1) is None


def test_invented_models_leave_nothing_behind(live: Live) -> None:
    for number in range(5000):
        stream = started(live, 1, number, at=float(number), model=f"invented-{number}")
        live.end(stream, end(number, at=number + 0.5))
    assert len(live._groups) < 1000


def test_a_stream_whose_client_takes_no_bytes_is_not_stalled(live: Live) -> None:
    stream = started(live, 1, 1, at=10.0)
    moved(live, stream, output(1, 20.0, held=True))
    assert live.stalled(now=30.0, stall_seconds=2.0) == {}
    moved(live, stream, output(1, 20.0, held=False))
    assert live.stalled(now=30.0, stall_seconds=2.0) == {("up", "m"): 1}
