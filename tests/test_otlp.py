"""A collector gets what is measured, and what happens where it does not."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from otlp_rig import Collecting, collecting, read
from records import begin, end

from proxy.address import Upstream
from proxy.keeper import Keeper
from proxy.otlp import _BATCH, _MOST_WAITING, Collector, Losses

PATIENCE = 20.0  # seconds until a test gives up
UP = Upstream("up", "http", "engine.test", 8000)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENDED: dict[str, Any] = {
    "time": 1_700_000_000.5,
    "duration_seconds": 1.25,
    "trace_id": TRACE,
    "parent_id": SPAN,
    "sampled": True,
}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry sends when something is there, and gives up soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")


@pytest.fixture
def collector() -> Iterator[Collecting]:
    with collecting() as server:
        yield server


class Rig:
    """A keeper that sends to a collector; `said` is what would be on standard error."""

    def __init__(self, endpoint: str | None) -> None:
        self.said: list[str] = []
        self.collector = Collector(endpoint, self.said.append)
        self.keeper = Keeper(
            upstreams=["up"],
            max_models=3,
            stall_seconds=2.0,
            buckets={},
            log_path=None,
            exporter=self.collector.telemetry([UP]),
            clock=lambda: 100.0,
        )
        self._id = 0

    def exchange(self, **more: Any) -> None:
        self._id += 1
        at = float(self._id)
        records: list[Any] = [begin(self._id, at), end(self._id, at + 0.5, **ENDED, **more)]
        self.keeper.take(1, records)

    def gave_up(self, count: int) -> bool:
        """Whether so many spans were sent, or could not be."""
        return self.collector._spans._taken == count

    def said_of(self, what: str) -> int:
        return sum(what in line for line in self.said)


@pytest.fixture
def rig(collector: Collecting) -> Iterator[Rig]:
    rig = Rig(collector.url)
    yield rig
    collector.go_on.set()
    rig.collector.close(PATIENCE)


def eventually(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_metrics_arrive_as_exponential_histograms(collector: Collecting, rig: Rig) -> None:
    rig.exchange(output_tokens=9, token_source="usage")
    assert eventually(lambda: len(collector.points()) == 2)
    (duration,) = collector.points()["gen_ai.client.operation.duration"]
    assert (duration.count, duration.sum) == (1, 1.25)
    assert read(duration.attributes)["gen_ai.request.model"] == "m"
    (usage,) = collector.points()["gen_ai.client.token.usage"]
    assert (usage.count, usage.sum) == (1, 9)
    assert read(usage.attributes)["gen_ai.token.type"] == "output"
    resource = collector.resource()
    assert resource["service.name"] == "tokometer"
    assert resource["service.instance.id"]


def test_a_span_arrives_within_the_clients_trace(collector: Collecting, rig: Rig) -> None:
    rig.exchange()
    assert eventually(collector.spans)
    (span,) = collector.spans()
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_250_000_000
    assert read(span.attributes)["tokometer.outcome"] == "completed"
    assert rig.said == []


def test_the_variables_name_the_collector_where_the_settings_say_so(
    collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=token-of-the-collector")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "speedometer")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    rig = Rig(None)
    rig.exchange()
    rig.collector.close(PATIENCE)
    assert len(collector.spans()) == 1
    assert collector.headers[0]["authorization"] == "token-of-the-collector"
    resource = collector.resource()
    assert resource["service.name"] == "speedometer"
    assert resource["deployment.environment.name"] == "test"
    assert rig.said == []


def test_what_is_left_is_sent_at_the_end(
    collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    rig = Rig(collector.url)
    rig.exchange()
    rig.collector.close(PATIENCE)
    assert len(collector.spans()) == 1
    assert collector.points()


def test_a_loss_is_said_once_until_it_is_over(collector: Collecting, rig: Rig) -> None:
    collector.status = 401
    for count in range(1, 4):
        rig.exchange()
        assert eventually(partial(rig.gave_up, count))
    assert eventually(lambda: rig.said_of("spans cannot be sent") == 1)
    assert eventually(lambda: rig.said_of("metrics cannot be sent") == 1)
    assert any("code: 401" in line for line in rig.said)
    collector.status = 200
    assert eventually(collector.points)
    (duration,) = collector.points()["gen_ai.client.operation.duration"]
    assert duration.count == 3  # nothing of the metrics is lost
    rig.exchange()
    assert eventually(collector.spans)
    assert len(rig.said) == 2
    collector.status = 401
    rig.exchange()
    assert eventually(lambda: rig.said_of("spans cannot be sent") == 2)
    assert all("\n" not in line for line in rig.said)


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_redirect_is_no_success_and_is_not_followed(
    collector: Collecting, rig: Rig, status: int, elsewhere: bool
) -> None:
    with collecting() as other:
        collector.status = status
        collector.location = f"{other.url}/v1/traces" if elsewhere else ""
        for count in range(1, 4):
            rig.exchange()
            assert eventually(partial(rig.gave_up, count))
        assert eventually(lambda: rig.said_of("spans cannot be sent") == 1)
        assert eventually(lambda: rig.said_of("metrics cannot be sent") == 1)
        assert all(f"(code: {status})" in line for line in rig.said)
        assert other.headers == []
    collector.status = 200
    rig.exchange()
    assert eventually(collector.spans)
    assert len(rig.said) == 2


def test_a_collector_that_is_not_there_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")  # enough for another try
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        rig = Rig(f"http://127.0.0.1:{unused.getsockname()[1]}")
        for _ in range(10):
            rig.exchange()
        assert eventually(lambda: len(rig.said) == 2)
        assert rig.said_of("spans cannot be sent and are lost until that changes") == 1
        assert any("refused" in line for line in rig.said)
        rig.collector.close(PATIENCE)
    assert len(rig.said) == 2


def test_what_a_stuck_collector_does_not_take_is_bounded(
    collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    rig = Rig(collector.url)
    collector.stuck = True
    for _ in range(_MOST_WAITING + _BATCH + 10):
        rig.exchange()
    waiting = rig.collector._spans._given - rig.collector._spans._taken
    assert waiting <= _MOST_WAITING
    assert rig.said_of("more spans than can be sent: some are lost") == 1
    begun = time.monotonic()
    rig.collector.close(0.1)
    assert time.monotonic() - begun < PATIENCE
    assert rig.keeper.collect()
    collector.go_on.set()


def test_nothing_of_a_text_or_a_key_is_in_what_is_sent(collector: Collecting, rig: Rig) -> None:
    rig.exchange(user="ann", task="f" * 32, request_id="r-1")
    assert eventually(lambda: collector.spans() and collector.points())
    sent = b"".join(collector.bodies)
    assert b"r-1" in sent
    assert b"ann" not in sent
    assert b"ffffffff" not in sent


def test_where_opentelemetry_is_switched_off_nothing_waits(
    collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    rig = Rig(collector.url)
    for _ in range(_MOST_WAITING + 1):
        rig.exchange()
    rig.collector.close(PATIENCE)
    assert collector.spans() == []
    assert rig.said == []


def test_its_threads_end_with_it(collector: Collecting) -> None:
    before = threading.active_count()
    rig = Rig(collector.url)
    rig.exchange()
    rig.collector.close(PATIENCE)
    assert eventually(lambda: threading.active_count() <= before)


def test_what_is_said_of_a_loss_quotes_no_header() -> None:
    def send() -> bool:
        raise ValueError("Invalid return character(s) in header value: 'Bearer sk-live-1\n'")

    said: list[str] = []
    assert Losses(said.append).attempt("lost", send, False) is False
    assert said == ["OpenTelemetry: lost (header)"]
