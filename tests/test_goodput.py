from typing import Any

import pytest
from records import begin, end, output, total, value

from proxy.goodput import Goodput
from proxy.labels import Models
from proxy.live import Exchange, Live
from proxy.metrics import Metrics
from proxy.objectives import ObjectiveTable


class Rig:
    """Objectives of which model `m` has its own."""

    def __init__(self, objectives: ObjectiveTable) -> None:
        self.metrics = Metrics({})
        self.goodput = Goodput(self.metrics, objectives)
        self.live = Live(Models(9, lambda: None))

    def begun(self, id: int = 1, **more: Any) -> Exchange:
        exchange = self.live.begin(1, begin(id, 10.0, **more))
        assert exchange is not None
        return exchange

    def value(self, model: str, objective: str, met: str) -> float | None:
        labels = {"upstream": "up", "model": model, "objective": objective, "met": met}
        return value(self.metrics.collect(), "tokometer_objectives_total", **labels)

    def total(self) -> float:
        return total(self.metrics.collect(), "tokometer_objectives_total")


@pytest.fixture
def rig() -> Rig:
    return Rig(ObjectiveTable({"ttft": 0.5}, {"m": {"ttft": 2.0, "duration": 9.0}}))


def test_a_model_has_its_own_objectives(rig: Rig) -> None:
    rig.goodput.end(None, "m", end(1, 12.0, ttft_seconds=1.0, duration_seconds=5.0))
    rig.goodput.end(None, "n", end(2, 12.0, ttft_seconds=1.0, duration_seconds=5.0))
    assert (rig.value("m", "ttft", "true"), rig.value("m", "ttft", "false")) == (1, 0)
    assert (rig.value("m", "duration", "true"), rig.value("m", "all", "true")) == (1, 1)
    assert (rig.value("n", "ttft", "true"), rig.value("n", "ttft", "false")) == (0, 1)
    assert (rig.value("n", "duration", "true"), rig.value("n", "all", "false")) == (None, 1)


def test_series_are_there_with_0_as_soon_as_a_model_is_known(rig: Rig) -> None:
    exchange = rig.begun()
    rig.goodput.output(exchange, output(1, 11.0))
    assert rig.value("unknown", "all", "false") is None
    exchange.label = "m"
    rig.goodput.output(exchange, output(1, 11.0))
    for objective in ("ttft", "duration", "all"):
        assert (rig.value("m", objective, "true"), rig.value("m", objective, "false")) == (0, 0)
    assert rig.value("m", "tpot", "true") is None


def test_without_objectives_there_are_no_series() -> None:
    rig = Rig(ObjectiveTable())
    rig.goodput.end(None, "m", end(1, 12.0, ttft_seconds=1.0))
    assert "objectives" not in str([one.samples for one in rig.metrics.collect()])


def test_a_failure_counts_by_what_was_asked_for(rig: Rig) -> None:
    """Only the request says that it was to be a stream: an error is JSON."""
    failed: dict[str, Any] = {
        "outcome": "rejected",
        "code": 503,
        "answered": False,
        "stream": False,
    }
    rig.goodput.end(rig.begun(stream=False), "n", end(1, 10.1, **failed))
    assert rig.total() == 0
    rig.goodput.end(rig.begun(id=2), "n", end(2, 10.1, **failed))
    assert rig.value("n", "all", "false") == 1


def test_how_long_a_client_waited_is_from_its_request_to_its_leaving(rig: Rig) -> None:
    left: dict[str, Any] = {"outcome": "client_closed", "answered": False, "stream": False}
    rig.goodput.end(rig.begun(), "n", end(1, 10.4, **left))
    assert rig.total() == 0
    rig.goodput.end(rig.begun(id=2), "n", end(2, 10.6, **left))
    assert (rig.value("n", "ttft", "false"), rig.value("n", "all", "false")) == (1, 1)


def test_an_upstream_that_never_answered_has_its_failures(rig: Rig) -> None:
    gone: dict[str, Any] = {"outcome": "unreachable", "code": 502, "answered": False}
    rig.goodput.end(rig.begun(), "unknown", end(1, 10.1, **gone))
    assert rig.value("unknown", "all", "false") == 1


def test_what_is_no_models_work_meets_and_misses_nothing(rig: Rig) -> None:
    exchange = rig.begun(api="other")
    rig.goodput.output(exchange, output(1, 11.0))
    rig.goodput.end(exchange, "m", end(1, 12.0, api="other", duration_seconds=5.0))
    assert rig.value("m", "all", "true") is None
