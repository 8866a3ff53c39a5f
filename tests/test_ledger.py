"""What a worker puts to the keeper, and when."""

from collections.abc import Callable
from typing import Any

import pytest
from exchanges import arrived, headed, opened
from wire import DONE, finished, said

from proxy.channel import Record
from proxy.exchange import Exchange
from proxy.ledger import Ledger
from proxy.outcome import Outcome


class Outlet:
    """Keeps what it is given."""

    def __init__(
        self, collect: Callable[[], float | None], snapshot: Callable[[], list[Record]]
    ) -> None:
        self.collect = collect
        self.snapshot = snapshot
        self.records: list[Any] = []
        self.woken = 0

    def put(self, record: Record) -> None:
        self.records.append(record)

    def wake(self) -> None:
        self.woken += 1

    def take(self) -> list[Any]:
        """What came since the last call."""
        records, self.records = self.records, []
        return records


class Desk:
    """A ledger and its outlet."""

    def __init__(self, stall_seconds: float = 2.0) -> None:
        self.outlets: list[Outlet] = []
        self.ledger = Ledger(self._open, stall_seconds)
        self.outlet = self.outlets[0]

    def _open(
        self, collect: Callable[[], float | None], snapshot: Callable[[], list[Record]]
    ) -> Outlet:
        self.outlets.append(Outlet(collect, snapshot))
        return self.outlets[-1]

    def begun(self, number: int) -> Exchange:
        """An exchange whose answer has begun; its begin record is taken."""
        exchange = opened(number=number)
        self.ledger.begin(exchange)
        headed(exchange)
        self.outlet.take()
        return exchange


def kinds(records: list[Any]) -> list[str]:
    return [f"{record['kind']} {record['id']}" for record in records]


def test_a_begin_is_put_at_once() -> None:
    desk = Desk()
    desk.ledger.begin(opened(number=3))
    assert kinds(desk.outlet.take()) == ["begin 3"]


def test_output_is_put_when_it_is_collected() -> None:
    desk = Desk()
    first, second = desk.begun(1), desk.begun(2)
    arrived(second, (100, said("a")))
    desk.ledger.moved(second)
    arrived(first, (110, said("a")))
    desk.ledger.moved(first)
    assert first.moved and second.moved
    assert (desk.outlet.take(), desk.outlet.woken) == ([], 2)
    desk.outlet.collect()
    assert kinds(desk.outlet.take()) == ["output 2", "output 1"]
    assert not first.moved and not second.moved
    desk.outlet.collect()
    assert desk.outlet.take() == []


@pytest.mark.parametrize(("stall_seconds", "rounds"), [(2.0, 2), (0.5, 1)])
def test_a_stream_whose_first_output_is_told_is_told_of_less_often_if_that_is_no_stall(
    stall_seconds: float, rounds: int
) -> None:
    desk = Desk(stall_seconds)
    exchange = desk.begun(1)
    arrived(exchange, (100, said("a")))
    desk.ledger.moved(exchange)
    desk.outlet.collect()
    assert kinds(desk.outlet.take()) == ["output 1"]
    told = 0
    for number in range(8):
        arrived(exchange, (200 + 10 * number, said("b")))
        if not exchange.moved:
            desk.ledger.moved(exchange)
        desk.outlet.collect()
        told += len(desk.outlet.take())
    assert told == 8 / rounds


def test_a_chunk_without_output_puts_nothing() -> None:
    desk = Desk()
    exchange = desk.begun(1)
    arrived(exchange, (100, b": ping\n\n"))
    desk.ledger.moved(exchange)
    desk.outlet.collect()
    assert desk.outlet.take() == []


def test_the_last_output_is_put_before_the_end() -> None:
    desk = Desk()
    exchange = desk.begun(1)
    arrived(exchange, (100, said("a")), (200, finished() + DONE))
    desk.ledger.moved(exchange)
    exchange.outcome = Outcome.COMPLETED
    desk.ledger.end(exchange)
    assert kinds(desk.outlet.take()) == ["output 1", "end 1"]
    desk.outlet.collect()
    assert desk.outlet.take() == []


def test_output_that_only_the_end_completed_is_put_too() -> None:
    desk = Desk()
    exchange = desk.begun(1)
    arrived(exchange, (100, said("a").rstrip(b"\n")))
    desk.ledger.moved(exchange)
    desk.outlet.collect()
    exchange.meter.end(exchange.t_end)
    desk.ledger.end(exchange)
    output, _ = desk.outlet.take()
    assert output["ttft_seconds"] == pytest.approx(0.1)


def test_an_end_without_anything_new_is_alone() -> None:
    desk = Desk()
    exchange = desk.begun(1)
    desk.ledger.end(exchange)
    assert kinds(desk.outlet.take()) == ["end 1"]


def test_others_that_moved_stay_to_be_collected() -> None:
    desk = Desk()
    first, second = desk.begun(1), desk.begun(2)
    for exchange in (first, second):
        arrived(exchange, (100, said("a")))
        desk.ledger.moved(exchange)
    desk.ledger.end(first)
    desk.outlet.collect()
    assert kinds(desk.outlet.take()) == ["output 1", "end 1", "output 2"]


def test_a_snapshot_tells_what_runs_and_who_the_upstreams_are() -> None:
    desk = Desk()
    first, second = desk.begun(1), desk.begun(2)
    desk.ledger.server("up", "llama.cpp")
    desk.ledger.end(first)
    assert desk.outlet.snapshot() == [
        second.begin(),
        {"kind": "identity", "upstream": "up", "server": "llama.cpp"},
    ]


def test_a_server_is_named_when_it_changes() -> None:
    desk = Desk()
    for upstream, name in (("a", "x/1"), ("a", "x/1"), ("b", "x/1"), ("a", "x/2"), ("a", "")):
        desk.ledger.server(upstream, name)
    assert [(record["upstream"], record["server"]) for record in desk.outlet.take()] == [
        ("a", "x/1"),
        ("b", "x/1"),
        ("a", "x/2"),
    ]


def test_a_long_server_name_is_cut() -> None:
    desk = Desk()
    desk.ledger.server("up", "x" * 1000)
    desk.ledger.server("up", "x" * 1000)
    assert [len(record["server"]) for record in desk.outlet.take()] == [128]


def test_connections_are_told_at_once() -> None:
    desk = Desk()
    desk.ledger.connected("up", 0.25)
    desk.ledger.connected("up", None)
    assert desk.outlet.take() == [
        {"kind": "connected", "upstream": "up", "seconds": 0.25},
        {"kind": "connected", "upstream": "up"},
    ]


def test_delays_are_collected() -> None:
    desk = Desk()
    quick, slow = desk.ledger.overhead("quick"), desk.ledger.overhead("slow")
    quick += [0.001, 0.002]
    desk.ledger.lag(0.5)
    assert (desk.outlet.take(), desk.outlet.woken) == ([], 1)
    desk.outlet.collect()
    assert desk.outlet.take() == [
        {"kind": "delays", "lag": [0.5], "overhead": {"quick": [0.001, 0.002]}}
    ]
    slow.append(0.003)
    assert desk.ledger.overhead("quick") is quick
    desk.outlet.collect()
    assert desk.outlet.take() == [{"kind": "delays", "lag": [], "overhead": {"slow": [0.003]}}]
    desk.outlet.collect()
    assert desk.outlet.take() == []


def test_many_that_moved_are_told_of_in_turns_and_each_once_a_round() -> None:
    desk = Desk()
    exchanges = [desk.begun(number) for number in range(1, 26)]
    for exchange in exchanges:
        arrived(exchange, (100, said("a")))
        desk.ledger.moved(exchange)
    turns, waits = [], []
    for _ in range(3):
        waits.append(desk.outlet.collect())
        turns.append(kinds(desk.outlet.take()))
        if len(turns) == 1:  # one that has been told of moves again: that is for the next round
            arrived(exchanges[0], (200, said("b")))
            desk.ledger.moved(exchanges[0])
            exchanges[24].outcome = Outcome.CLIENT_CLOSED
            desk.ledger.end(exchanges[24])
            assert kinds(desk.outlet.take()) == ["output 25", "end 25"]
    assert [len(turn) for turn in turns] == [10, 10, 4]
    assert len({kind for turn in turns for kind in turn}) == 24
    assert waits[0] == waits[1] and waits[2] is not None and waits[2] > (waits[0] or 0)
    assert desk.outlet.collect() is None
    assert kinds(desk.outlet.take()) == ["output 1"]
