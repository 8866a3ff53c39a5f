"""Measurements and spans of exchanges, as the keeper learns of them."""

import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import SpanKind, StatusCode
from records import begin, end, output, rejected

from proxy.address import Upstream
from proxy.keeper import Keeper
from proxy.telemetry import Telemetry

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WALL = 1_700_000_000.5
SPEED: dict[str, Any] = {
    "time": WALL,
    "ttft_seconds": 0.5,
    "decode_tokens_per_second": 20.0,
    "duration_seconds": 1.25,
}


class Rig:
    """A keeper with an exporter into memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._spans = InMemorySpanExporter()
        self.room = True
        self.closed = 0
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        tracers = TracerProvider(DEFAULT_ON, shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = Telemetry(
            [Upstream("up", "http", "engine.test", 8000)],
            meters.get_meter("test"),
            tracers.get_tracer("test"),
            lambda: self.room,
            self._close,
        )
        self.keeper = Keeper(
            upstreams=["up"],
            max_models=1,
            stall_seconds=2.0,
            buckets={},
            log_path=None,
            exporter=self.telemetry,
            clock=lambda: 100.0,
        )

    def _close(self) -> None:
        self.closed += 1

    def take(self, *records: Any) -> None:
        self.keeper.take(1, records)

    def points(self) -> dict[str, list[Any]]:
        """Data points by the name of the metric, without the common beginning."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name.removeprefix("gen_ai."): list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())


def sums(points: list[Any]) -> list[float]:
    return [point.sum for point in points]


def test_a_completed_stream_is_measured_under_the_conventions_names() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0))
    rig.take(output(1, 10.5, first_at=10.5, ttft_seconds=0.5))
    assert sums(rig.points()["client.operation.time_to_first_chunk"]) == [0.5]
    tokens: dict[str, Any] = {"prompt_tokens": 70, "output_tokens": 9, "token_source": "usage"}
    rig.take(end(1, 11.0, **SPEED, **tokens))
    points = rig.points()
    assert {name: sums(found) for name, found in points.items()} == {
        "client.operation.time_to_first_chunk": [0.5],
        "client.operation.duration": [1.25],
        "client.token.usage": [70, 9],
        "server.time_to_first_token": [0.5],
        "server.time_per_output_token": [0.05],
    }
    (duration,) = points["client.operation.duration"]
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "server.address": "engine.test",
        "server.port": 8000,
        "tokometer.upstream": "up",
    }
    types = [point.attributes["gen_ai.token.type"] for point in points["client.token.usage"]]
    assert types == ["input", "output"]


def test_what_failed_has_an_error_type_and_no_speed() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0), rejected(1, 11.0, time=WALL, duration_seconds=1.0))
    rig.take(begin(2, 10.0), end(2, 11.0, outcome="truncated", **SPEED))
    points = rig.points()
    errors = [one.attributes["error.type"] for one in points["client.operation.duration"]]
    assert sorted(errors) == ["429", "truncated"]
    assert sums(points["client.operation.time_to_first_chunk"]) == [0.5]
    assert "server.time_to_first_token" not in points
    assert "server.time_per_output_token" not in points


def test_an_estimate_is_no_usage() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0), end(1, 11.0, output_tokens=9, token_source="estimate"))
    assert "client.token.usage" not in rig.points()


def test_models_past_the_most_are_other() -> None:
    rig = Rig()
    for id, model in enumerate(["a", "b", "c"]):
        rig.take(begin(id, 10.0, model), end(id, 11.0, model, **SPEED))
    models = [one.attributes["gen_ai.response.model"] for one in points_of_duration(rig)]
    assert models == ["a", "other"]


def points_of_duration(rig: Rig) -> list[Any]:
    return rig.points()["client.operation.duration"]


def test_other_requests_are_not_told() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0, api="other"), end(1, 11.0, api="other", **SPEED))
    assert rig.points() == {}
    assert rig.spans() == []


@pytest.mark.parametrize("told", ["begin and end", "end alone"])
def test_an_exchange_is_one_span_of_the_clients_trace(told: str) -> None:
    rig = Rig()
    trace: dict[str, Any] = {"trace_id": TRACE, "parent_id": SPAN, "sampled": True}
    if told == "begin and end":
        rig.take(begin(1, 10.0, "asked"))
    rig.take(end(1, 11.0, **trace, **SPEED))
    (span,) = rig.spans()
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == SPAN
    assert span.parent.is_remote
    assert span.kind is SpanKind.CLIENT
    assert span.name == ("chat asked" if told == "begin and end" else "chat")
    assert span.start_time == 1_700_000_000_500_000_000
    assert span.end_time == span.start_time + 1_250_000_000
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes is not None
    assert span.attributes["gen_ai.response.model"] == "m"


def test_a_request_without_a_trace_is_a_trace_of_its_own() -> None:
    rig = Rig()
    rig.take(*(record for id in (1, 2) for record in (begin(id, 10.0), end(id, 11.0, **SPEED))))
    one, other = rig.spans()
    assert one.parent is other.parent is None
    assert one.context is not None
    assert other.context is not None
    assert one.context.trace_id != other.context.trace_id


def test_a_trace_that_is_not_recorded_gets_no_span() -> None:
    rig = Rig()
    trace: dict[str, Any] = {"trace_id": TRACE, "parent_id": SPAN, "sampled": False}
    rig.room = False  # would be asked for one that is
    rig.take(begin(1, 10.0), end(1, 11.0, **trace, **SPEED))
    assert rig.spans() == []
    assert len(points_of_duration(rig)) == 1


def test_a_span_for_which_there_is_no_room_is_not_given_on() -> None:
    rig = Rig()
    rig.room = False
    rig.take(begin(1, 10.0), end(1, 11.0, **SPEED))
    assert rig.spans() == []


def test_what_failed_is_an_error_span() -> None:
    rig = Rig()
    rig.take(begin(1, 10.0, "nope"), rejected(1, 11.0, "nope", time=WALL))
    (span,) = rig.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "429"
    assert span.start_time == span.end_time  # how long it took is not known


def test_an_exchange_of_a_dead_worker_is_a_span_of_its_trace() -> None:
    rig = Rig()
    trace: dict[str, Any] = {"trace_id": TRACE, "parent_id": SPAN, "sampled": True}
    rig.take(begin(1, 90.0, time=WALL, **trace))
    rig.keeper.lost(1)
    (span,) = rig.spans()
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == SPAN
    assert span.attributes is not None
    assert span.attributes["error.type"] == "aborted"


def test_its_end_is_passed_on() -> None:
    rig = Rig()
    rig.telemetry.close()
    assert rig.closed == 1


def test_the_docs_list_every_metric_and_no_other() -> None:
    rig = Rig()
    tokens: dict[str, Any] = {"output_tokens": 9, "token_source": "usage"}
    rig.take(begin(1, 10.0), end(1, 11.0, **SPEED, **tokens))
    docs = Path(__file__).parents[1] / "docs" / "opentelemetry.md"
    listed = re.findall(r"^\| `gen_ai\.([a-z_.]+)` \| (?:s|\{token\}) ", docs.read_text(), re.M)
    assert set(listed) == rig.points().keys()
