"""`tokometer serve` before a collector: real processes, real exchanges."""

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest
from otlp_rig import Collecting, collecting, read
from serve_rig import (
    ASK,
    LAST,
    PATIENCE,
    Proxy,
    Upstream,
    eventually,
    serving,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collecting]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
    with collecting() as server:
        yield server


def ask(proxy: Proxy) -> bytes:
    """One stream, within a trace."""
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)
    with closing(client):
        trace = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        client.request("POST", "/v1/chat/completions", ASK, trace)
        return client.getresponse().read()


@pytest.mark.parametrize("named_by", ["flag", "variable"])
def test_exchanges_arrive_at_the_collector(
    upstream: Upstream, collector: Collecting, named_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.go_on.set()
    endpoint = collector.url
    if named_by == "variable":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        endpoint = "env"
    with serving("--upstream", upstream.url, "--otlp-endpoint", endpoint) as proxy:
        assert ask(proxy.ready()).endswith(LAST)
        assert eventually(lambda: bool(collector.spans()))
        assert eventually(lambda: "gen_ai.client.operation.duration" in collector.points())
        proxy.signal()
        assert proxy.wait() == 0
        assert proxy.line() == ""
    (span,) = collector.spans()
    assert (span.name, span.trace_id.hex()) == ("chat m", TRACE)
    assert span.parent_span_id.hex() == SPAN
    attributes = read(span.attributes)
    assert attributes["server.port"] == upstream.server_address[1]
    assert attributes["tokometer.outcome"] == "completed"
    (first,) = collector.points()["gen_ai.client.operation.time_to_first_chunk"]
    assert first.count == 1
    assert first.sum == attributes["gen_ai.response.time_to_first_chunk"]
    assert b"word" not in b"".join(collector.bodies)


def test_a_variable_alone_sends_nothing(
    upstream: Upstream, collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    upstream.go_on.set()
    with serving("--upstream", upstream.url) as proxy:
        ask(proxy.ready())
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 1)
        proxy.signal()
        assert proxy.wait() == 0
    assert collector.bodies == []


def test_traffic_and_metrics_go_on_while_the_collector_is_away(
    upstream: Upstream, collector: Collecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    upstream.go_on.set()
    collector.status = 404
    with serving("--upstream", upstream.url, "--otlp-endpoint", collector.url) as proxy:
        proxy.ready()
        for _ in range(3):
            assert ask(proxy).endswith(LAST)
        assert "OpenTelemetry" in proxy.line()
        assert eventually(lambda: proxy.count("tokometer_requests_total") == 3)
        collector.status = 200
        assert eventually(lambda: "gen_ai.client.operation.duration" in collector.points())
        (duration,) = collector.points()["gen_ai.client.operation.duration"]
        assert duration.count == 3


def test_an_unusable_variable_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "-1")
    with serving("--upstream", "http://127.0.0.1:1", "--otlp-endpoint", "env") as proxy:
        assert proxy.line().startswith("tokometer: otlp_endpoint: a variable OTEL_... will not do")
        assert proxy.wait() == 2
