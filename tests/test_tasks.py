"""Tasks of agents: what belongs together, and when it is over."""

from typing import Any, Literal

from records import begin, end, rejected, samples

from proxy.keeper import Keeper
from proxy.labels import Models
from proxy.live import Live
from proxy.metrics import Metrics
from proxy.tasks import Tasks

A, B, C = "a" * 32, "b" * 32, "c" * 32


class Rig:
    """A keeper whose clock stands at `now`; tasks are over after 60 s of quiet."""

    def __init__(self, key: Literal["trace_id", "task"] | None = "trace_id") -> None:
        self.now = 100.0
        self.keeper = Keeper(
            upstreams=["up"],
            max_models=3,
            stall_seconds=2.0,
            buckets={},
            log_path=None,
            task_key=key,
            task_quiet=60.0,
            clock=lambda: self.now,
        )

    def take(self, *records: Any) -> None:
        self.keeper.take(1, records)

    def observed(self, what: str) -> tuple[float, float]:
        """Number and sum of a histogram."""
        found = samples(self.keeper.collect())
        name, none = f"tokometer_task_{what}", frozenset[tuple[str, str]]()
        return found[name + "_count"][none], found[name + "_sum"][none]


def test_calls_of_a_trace_are_a_task_that_is_over_after_a_quiet_time() -> None:
    rig = Rig()
    for id in (1, 2, 3):
        rig.take(begin(id, rig.now, trace_id=A))
        rig.now += 20
        rig.take(end(id, rig.now, trace_id=A, duration_seconds=2.5, output_tokens=id))
        rig.now += 40
    assert rig.observed("calls") == (0, 0)
    rig.now += 20
    assert rig.observed("calls") == (1, 3)
    assert rig.observed("wait_seconds") == (1, 7.5)
    assert rig.observed("output_tokens") == (1, 6)


def test_a_task_is_not_over_while_a_call_is_in_flight() -> None:
    rig = Rig()
    rig.take(begin(1, 100.0, trace_id=A), begin(2, 100.0, trace_id=A))
    rig.take(end(1, 101.0, trace_id=A, duration_seconds=1.0))
    rig.now += 600
    assert rig.observed("calls") == (0, 0)
    rig.take(end(2, 700.0, trace_id=A, duration_seconds=600.0))
    rig.now += 59
    assert rig.observed("calls") == (0, 0)
    rig.now += 1
    assert rig.observed("calls") == (1, 2)
    assert rig.observed("wait_seconds") == (1, 601)


def test_tasks_are_told_apart_and_what_comes_after_the_quiet_time_is_another_one() -> None:
    rig = Rig()
    for id, trace in enumerate([A, B, A, A]):
        rig.take(begin(id, rig.now, trace_id=trace), end(id, rig.now, trace_id=trace))
    rig.now += 61  # nobody looks at the metrics meanwhile
    rig.take(begin(9, rig.now, trace_id=A), end(9, rig.now, trace_id=A))
    rig.now += 61
    assert rig.observed("calls") == (3, 5)
    assert rig.observed("wait_seconds") == (0, 0)  # nothing is known of it
    assert rig.observed("output_tokens") == (0, 0)


def test_calls_that_failed_are_calls_and_other_requests_are_none() -> None:
    rig = Rig()
    rig.take(begin(1, 100.0, trace_id=A), rejected(1, 101.0, trace_id=A, duration_seconds=1.0))
    rig.take(begin(2, 100.0, trace_id=A, api="other"))
    rig.take(end(2, 101.0, trace_id=A, api="other", duration_seconds=7.0))
    rig.take(begin(3, 100.0), end(3, 101.0))  # without a trace
    rig.now += 61
    assert rig.observed("calls") == (1, 1)
    assert rig.observed("wait_seconds") == (1, 1)


def test_tasks_of_a_header_go_by_its_hash() -> None:
    rig = Rig("task")
    for id, trace in ((1, A), (2, B)):
        rig.take(begin(id, 100.0, trace_id=trace, task="t"))
        rig.take(end(id, 101.0, trace_id=trace, task="t"))
    rig.take(begin(3, 100.0, trace_id=A), end(3, 101.0, trace_id=A))
    rig.now += 61
    assert rig.observed("calls") == (1, 2)


def test_an_end_whose_begin_was_lost_belongs_to_its_task() -> None:
    rig = Rig()
    rig.take(begin(1, 100.0, trace_id=A), end(7, 101.0, trace_id=A))
    rig.now += 61
    assert rig.observed("calls") == (0, 0)  # the other one is in flight still
    rig.take(end(1, 161.0, trace_id=A))
    rig.now += 61
    assert rig.observed("calls") == (1, 2)


def test_ends_that_were_lost_leave_no_task_open() -> None:
    rig = Rig()
    rig.take(begin(1, 100.0, trace_id=A), end(1, 101.0, trace_id=A))
    rig.take(begin(2, 102.0, trace_id=A), begin(3, 102.0, trace_id=B), begin(4, 102.0, trace_id=C))
    rig.take({"kind": "dropped", "records": 3, "in_flight": [4]})
    rig.now += 61
    assert rig.observed("calls") == (1, 1)
    rig.take(end(4, rig.now, trace_id=C))
    rig.now += 61
    assert rig.observed("calls") == (2, 2)


def test_a_dead_worker_leaves_no_task_open() -> None:
    rig = Rig()
    rig.take(begin(1, 100.0, trace_id=A))
    rig.now += 10
    rig.keeper.lost(1)
    rig.now += 60
    assert rig.observed("calls") == (1, 1)
    assert rig.observed("wait_seconds") == (1, 10)


def bounded(most: int, *records: Any) -> Metrics:
    """What so many open tasks make of records."""
    metrics, live = Metrics({}), Live(Models(3, lambda: None))
    tasks = Tasks(metrics, "trace_id", 60.0, lambda: 100.0, most)
    for record in records:
        if record["kind"] == "begin":
            exchange = live.begin(1, record)
            assert exchange is not None
            tasks.begin(exchange)
        else:
            tasks.end(live.find(1, record["id"]), "m", record)
        assert len(tasks._running) + len(tasks._quiet) <= most
    return metrics


def test_one_task_more_than_there_may_be_closes_the_one_that_is_quiet_for_longest() -> None:
    ended = [record for id, trace in ((1, A), (2, B), (3, A)) for record in call(id, trace)]
    metrics = bounded(2, *ended, begin(4, 100.0, trace_id=C))
    assert metrics.task_calls.of().total == 1  # that of B: A was there again


def test_a_task_for_which_there_is_no_room_is_passed_over() -> None:
    running = [begin(1, 100.0, trace_id=A), begin(2, 100.0, trace_id=B)]
    metrics = bounded(2, *running, *call(3, C), end(1, 100.0, trace_id=A), *call(4, C))
    assert metrics.task_calls.of().total == 1  # that of A made room


def call(id: int, trace: str) -> list[Any]:
    return [begin(id, 100.0, trace_id=trace), end(id, 100.0, trace_id=trace)]


def test_an_exemplar_leads_to_the_trace_of_a_task() -> None:
    rig = Rig()
    rig.take(*call(1, A))
    rig.now += 61
    (family,) = (one for one in rig.keeper.collect() if one.name == "tokometer_task_calls")
    found = [one.exemplar.labels["trace_id"] for one in family.samples if one.exemplar]
    assert found == [A]


def test_without_the_setting_there_is_nothing_of_tasks() -> None:
    rig = Rig(None)
    rig.take(*call(1, A))
    assert [family.name for family in rig.keeper.collect() if "task" in family.name] == []
