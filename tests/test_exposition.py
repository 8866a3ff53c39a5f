from collections.abc import Callable, Iterable

import pytest
from prometheus_client.core import Metric, Timestamp
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from proxy.exposition import OPENMETRICS, TEXT, Format, chosen
from proxy.metrics import Metrics
from proxy.series import Trace

parse_openmetrics: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_NATIVE = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        (PROMETHEUS_2_42, OPENMETRICS),
        (PROMETHEUS_NATIVE, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/vnd.google.protobuf", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;version=nonsense", TEXT),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=high", TEXT),
        (";;,,=", TEXT),
    ],
)
def test_the_format_is_what_accept_likes_best(accept: str, form: Format) -> None:
    assert chosen(accept) is form


def families() -> list[Metric]:
    metrics = Metrics({})
    for scope in (("up",), ("up", "m"), ("up", "m", "chat")):
        metrics.prepare(*scope)
    metrics.ttft.of("up", 'a"\\\nb').observe(0.25, Trace("0af7", 1700000000.5))
    metrics.output_tokens.of("up", "m", "chat").add(7)
    metrics.output_length.of("up", "m").observe(7)
    return metrics.collect()


def test_openmetrics_is_valid_and_has_exemplars() -> None:
    body = OPENMETRICS.render(families()).decode()
    assert body.endswith("\n# EOF\n")
    read = {family.name: family for family in parse_openmetrics(body)}
    ttft = read["tokometer_time_to_first_token_seconds"].samples
    (sample,) = (sample for sample in ttft if sample.exemplar)
    assert sample.labels == {"upstream": "up", "model": 'a"\\\nb', "le": "0.25"}
    assert sample.exemplar == ({"trace_id": "0af7"}, 0.25, Timestamp(1700000000, 500_000_000))


def test_a_counter_and_a_histogram_of_one_name_are_both_there() -> None:
    body = OPENMETRICS.render(families()).decode()
    assert "# TYPE tokometer_output_tokens histogram\n" in body
    assert "# TYPE tokometer_output_tokens counter\n" not in body
    counted = 'tokometer_output_tokens_total{api="chat",model="m",upstream="up"} 7.0\n'
    assert counted in body
    assert 'tokometer_output_tokens_count{model="m",upstream="up"} 1.0\n' in body
    assert "# TYPE tokometer_stalls counter\n" in body
    text = TEXT.render(families()).decode()
    assert counted in text
    assert "# TYPE tokometer_output_tokens_total counter\n" in text


def test_both_formats_tell_the_same_values() -> None:
    def values(body: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        parse = parse_openmetrics if body.endswith(b"# EOF\n") else parse_text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parse(body.decode())
            for sample in family.samples
        }

    assert values(TEXT.render(families())) == values(OPENMETRICS.render(families()))


def test_text_has_no_exemplars() -> None:
    assert b"0af7" not in TEXT.render(families())
