import math
from typing import Any

import pytest
from prometheus_client.core import Metric
from records import begin, end, output, total, value

from proxy.labels import Models
from proxy.live import Beside, Exchange, Live
from proxy.metrics import Metrics
from proxy.tally import Tally

T = "tokometer_"
UM = {"upstream": "up", "model": "m"}
UMA = {**UM, "api": "chat"}


class Rig:
    """A tally, and one answered stream of model `m` that began at 10."""

    def __init__(self) -> None:
        self.metrics = Metrics({})
        self.tally = Tally(self.metrics)
        live = Live(Models(100, lambda: None))
        exchange = live.begin(1, begin(1, 10.0, trace="t" * 32))
        assert exchange is not None
        live.answer(exchange, "m")
        self.exchange: Exchange = exchange

    def output(self, **more: Any) -> None:
        record = output(1, 11.0, **more)
        self.tally.output(self.exchange, record)
        self.exchange.take(record)

    def end(self, *, known: bool = True, beside: Beside | None = None, **more: Any) -> None:
        exchange = self.exchange if known else None
        self.tally.end("m", end(1, 12.0, **more), exchange, beside)

    def collect(self) -> list[Metric]:
        return self.metrics.collect()

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.collect(), T + name, **labels)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_ttft_is_observed_when_it_happens_and_not_again_at_the_end(rig: Rig) -> None:
    rig.output(ttft_seconds=0.2, first_at=10.2, ttfv_seconds=0.2)
    assert rig.value("time_to_first_token_seconds_count", **UM) == 1
    assert rig.value("time_to_first_token_seconds_bucket", **UM, le="0.2") == 1
    assert rig.value("time_to_first_token_seconds_bucket", **UM, le="0.16") == 0
    rig.end(ttft_seconds=0.2, ttfv_seconds=0.2)
    assert rig.value("time_to_first_token_seconds_count", **UM) == 1
    assert rig.value("time_to_first_visible_output_seconds_count", **UM) == 1


def test_a_ttft_of_0_is_one_too(rig: Rig) -> None:
    rig.output(ttft_seconds=0.0, first_at=10.0)
    rig.end(ttft_seconds=0.0)
    assert rig.value("time_to_first_token_seconds_count", **UM) == 1


def test_visible_output_can_come_later_than_the_first(rig: Rig) -> None:
    rig.output(ttft_seconds=0.2, first_at=10.2)
    rig.output(ttfv_seconds=0.7)
    rig.end(ttft_seconds=0.2, ttfv_seconds=0.7)
    assert rig.value("time_to_first_visible_output_seconds_sum", **UM) == 0.7
    assert rig.value("time_to_first_token_seconds_sum", **UM) == 0.2


@pytest.mark.parametrize("known", [True, False])
def test_ttft_comes_from_the_end_if_nothing_told_it_before(rig: Rig, known: bool) -> None:
    rig.end(known=known, ttft_seconds=0.4, ttfv_seconds=0.5, outcome="client_closed")
    assert rig.value("time_to_first_token_seconds_sum", **UM) == 0.4
    assert rig.value("time_to_first_visible_output_seconds_sum", **UM) == 0.5


def test_output_tokens_move_and_are_settled_at_the_end(rig: Rig) -> None:
    rig.output(tokens=3, characters=12)
    rig.output(tokens=4, characters=8)
    assert rig.value("output_tokens_total", **UMA) == 7
    rig.end(output_tokens=10, output_characters=20)
    assert rig.value("output_tokens_total", **UMA) == 10
    assert rig.value("output_characters_total", **UMA) == 20
    assert rig.value("output_tokens_sum", **UM) == 10


def test_an_over_count_is_taken_off_what_the_next_stream_adds(rig: Rig) -> None:
    rig.output(tokens=12)
    rig.end(output_tokens=10)
    assert rig.value("output_tokens_total", **UMA) == 12
    rig.end(known=False, output_tokens=5)
    assert rig.value("output_tokens_total", **UMA) == 15


def test_tokens_follow_a_stream_to_its_new_name(rig: Rig) -> None:
    rig.output(tokens=12, characters=40)
    rig.exchange.label = "n"
    rig.tally.relabel(rig.exchange, "m")
    assert rig.value("output_tokens_total", upstream="up", model="n", api="chat") == 12
    rig.exchange.label = "m"
    rig.tally.relabel(rig.exchange, "n")
    assert rig.value("output_tokens_total", **UMA) == 12
    assert rig.value("output_characters_total", **UMA) == 40


def test_chunk_gaps_are_observed_as_they_come(rig: Rig) -> None:
    rig.output(gaps=[0.025, 0.025, 3.0])
    assert rig.value("chunk_gap_seconds_bucket", **UM, le="0.025") == 2
    assert rig.value("chunk_gap_seconds_count", **UM) == 3
    assert rig.value("chunk_gap_seconds_sum", **UM) == pytest.approx(3.05)


SPEED: dict[str, Any] = {"decode_tokens_per_second": 40.0, "prefill_tokens_per_second": 2000.0}


def test_speed_is_observed_of_completed_exchanges(rig: Rig) -> None:
    rig.end(**SPEED)
    assert rig.value("decode_tokens_per_second_sum", **UM) == 40
    assert rig.value("time_per_output_token_seconds_sum", **UM) == 0.025
    assert rig.value("prefill_tokens_per_second_sum", **UM) == 2000


def test_speed_of_others_is_not_observed(rig: Rig) -> None:
    for outcome in ("client_closed", "truncated", "error_midstream", "aborted", "timeout"):
        rig.end(**SPEED, outcome=outcome, beside=Beside(1, 1.0), ttft_seconds=0.2)
    assert rig.value("decode_tokens_per_second_count", **UM) == 0
    assert rig.value("time_per_output_token_seconds_count", **UM) == 0
    assert rig.value("prefill_tokens_per_second_count", **UM) == 0
    assert total(rig.collect(), "tokometer_cell_ttft_streams_total") == 0
    assert total(rig.collect(), "tokometer_cell_tpot_streams_total") == 0
    assert rig.value("time_to_first_token_seconds_count", **UM) == 5


def test_cells_take_uncached_prompt_for_ttft_and_all_of_it_for_tpot(rig: Rig) -> None:
    rig.end(
        beside=Beside(5, 2.6),
        ttft_seconds=0.5,
        decode_tokens_per_second=50.0,
        prompt_tokens=5000,
        cached_prompt_tokens=4500,
        context=5000,
    )
    ttft, tpot = math.log(500_000), math.log(20_000)
    cell = {**UM, "context": "0-1k", "concurrency": "4-7"}
    assert rig.value("cell_ttft_streams_total", **cell) == 1
    assert rig.value("cell_ttft_log_sum_total", **cell) == pytest.approx(ttft)
    assert rig.value("cell_ttft_log_sumsq_total", **cell) == pytest.approx(ttft**2)
    assert rig.value("ttft_crowd_sum_total", **cell) == pytest.approx(math.log(8 + 5))
    cell = {**UM, "context": "4k-16k", "concurrency": "2-3"}
    assert rig.value("cell_tpot_streams_total", **cell) == 1
    assert rig.value("cell_tpot_log_sum_total", **cell) == pytest.approx(tpot)
    assert rig.value("cell_tpot_log_sumsq_total", **cell) == pytest.approx(tpot**2)
    assert total(rig.collect(), "tokometer_cell_ttft_streams_total") == 1
    assert total(rig.collect(), "tokometer_cell_tpot_streams_total") == 1


@pytest.mark.parametrize(("prompt", "context"), [({"context": 20_000}, "16k-64k"), ({}, "unknown")])
def test_context_is_estimated_or_unknown(rig: Rig, prompt: dict[str, Any], context: str) -> None:
    rig.end(beside=Beside(1, None), ttft_seconds=0.5, decode_tokens_per_second=50.0, **prompt)
    cell = {**UM, "context": context, "concurrency": "1"}
    assert rig.value("cell_ttft_streams_total", **cell) == 1
    assert total(rig.collect(), "tokometer_cell_tpot_streams_total") == 0


def test_all_series_of_a_model_are_there_with_0(rig: Rig) -> None:
    rig.tally.know("up", "m", "chat", "true")
    families = rig.collect()
    for reason in ("no_output", "client_limited", "too_large"):
        assert value(families, "tokometer_skipped_total", **UM, reason=reason) == 0
    for source in ("usage", "engine", "stream", "estimate", "none"):
        assert value(families, "tokometer_token_counts_total", **UM, source=source) == 0
    requests = {**UMA, "stream": "true"}
    for outcome, code in (("completed", "200"), ("rejected", "429"), ("unreachable", "502")):
        labels = {**requests, "outcome": outcome, "code": code}
        assert value(families, "tokometer_requests_total", **labels) == 0
    assert value(families, "tokometer_request_duration_seconds_count", **requests) == 0
    assert value(families, "tokometer_stalls_total", **UM) == 0
    assert value(families, "tokometer_output_tokens_total", **UMA) == 0
    cells = [s for f in families for s in f.samples if "_cell_" in s.name]
    assert (len(cells), {sample.value for sample in cells}) == (6 * 7 * 6, {0})


def test_an_end_is_counted_by_outcome_and_code(rig: Rig) -> None:
    rig.end()
    rig.end(outcome="client_closed", code=200)
    rig.tally.end(
        "unknown", end(2, 12.0, outcome="unreachable", code=502, answered=False), None, None
    )
    requests = {**UMA, "stream": "true"}
    assert rig.value("requests_total", **requests, outcome="completed", code="200") == 1
    assert rig.value("requests_total", **requests, outcome="client_closed", code="200") == 1
    unknown = {**requests, "model": "unknown", "outcome": "unreachable", "code": "502"}
    assert rig.value("requests_total", **unknown) == 1
    assert total(rig.collect(), "tokometer_requests_total") == 3


def test_an_exchange_without_a_status_has_an_empty_code(rig: Rig) -> None:
    record = end(1, 12.0, outcome="client_closed", answered=False)
    del record["code"]
    rig.tally.end("m", record, None, None)
    labels = {**UMA, "stream": "true", "outcome": "client_closed", "code": ""}
    assert rig.value("requests_total", **labels) == 1


def test_a_failure_of_an_unknown_model_makes_no_other_series_of_it(rig: Rig) -> None:
    rig.tally.end("unknown", end(2, 12.0, outcome="rejected", code=401, answered=False), None, None)
    assert total(rig.collect(), "tokometer_requests_total", model="unknown", code="401") == 1
    names = {s.name for f in rig.collect() for s in f.samples if s.labels.get("model") == "unknown"}
    assert names == {"tokometer_requests_total"}


def test_lengths_sources_stalls_and_reasons(rig: Rig) -> None:
    rig.end(
        prompt_tokens=100,
        cached_prompt_tokens=60,
        output_tokens=20,
        reasoning_tokens=15,
        token_source="usage",
        stalls=2,
        stalled_seconds=7.5,
        skipped="client_limited",
        headers_seconds=0.1,
        duration_seconds=2.0,
        client_wait_seconds=1.5,
    )
    assert rig.value("prompt_tokens_total", **UMA) == 100
    assert rig.value("cached_prompt_tokens_total", **UMA) == 60
    assert rig.value("reasoning_tokens_total", **UMA) == 15
    assert rig.value("prompt_tokens_bucket", **UM, le="128.0") == 1
    assert rig.value("prompt_tokens_bucket", **UM, le="64.0") == 0
    assert rig.value("token_counts_total", **UM, source="usage") == 1
    assert rig.value("stalls_total", **UM) == 2
    assert rig.value("stalled_seconds_total", **UM) == 7.5
    assert rig.value("skipped_total", **UM, reason="client_limited") == 1
    assert rig.value("time_to_headers_seconds_sum", **UM) == 0.1
    assert rig.value("request_duration_seconds_sum", **UMA, stream="true") == 2
    assert rig.value("client_wait_seconds_sum", **UM) == 1.5


def test_a_plain_answer_without_a_count_is_not_called_uncounted(rig: Rig) -> None:
    rig.end(stream=False, token_source="none")
    assert total(rig.collect(), "tokometer_token_counts_total") == 0
    rig.end(stream=True, token_source="none")
    assert rig.value("token_counts_total", **UM, source="none") == 1


@pytest.mark.parametrize(("rate", "number"), [(41.5, 1), (0.0, 0), (1e6, 0), (None, 0), (1e300, 0)])
def test_what_the_engine_reports_is_taken_if_it_makes_sense(
    rig: Rig, rate: float | None, number: int
) -> None:
    rig.end(engine={"decode_tokens_per_second": rate, "prefill_tokens_per_second": 812.0})
    assert rig.value("engine_decode_tokens_per_second_count", **UM) == number
    assert rig.value("engine_prefill_tokens_per_second_sum", **UM) == 812


def exemplars(rig: Rig, name: str) -> list[Any]:
    return [
        tuple(sample.exemplar)
        for family in rig.collect()
        for sample in family.samples
        if sample.exemplar and sample.name == f"tokometer_{name}_bucket"
    ]


def test_exemplars_name_the_trace_the_value_and_the_time(rig: Rig) -> None:
    rig.exchange.begun["time"] = 1000.0
    rig.output(ttft_seconds=0.25, first_at=10.25)
    assert exemplars(rig, "time_to_first_token_seconds") == [
        ({"trace_id": "t" * 32}, 0.25, 1000.25)
    ]
    rig.end(**SPEED, request_id="r-1", time=1000.0, duration_seconds=2.0)
    assert exemplars(rig, "decode_tokens_per_second") == [({"trace_id": "r-1"}, 40.0, 1002.0)]
    assert exemplars(rig, "request_duration_seconds") == [({"trace_id": "r-1"}, 2.0, 1002.0)]


def test_a_trace_that_openmetrics_does_not_allow_is_left_out(rig: Rig) -> None:
    rig.end(**SPEED, request_id="r" * 121)
    assert exemplars(rig, "decode_tokens_per_second") == []
    rig.end(**SPEED, request_id="r" * 120)
    assert exemplars(rig, "decode_tokens_per_second") == [({"trace_id": "r" * 120}, 40.0, None)]


@pytest.mark.parametrize("id", ['"', "a\\", 'a\\"', 'r"} # {a="b\\', "a\\nb", "a\nb"])
def test_a_trace_that_readers_of_openmetrics_choke_on_is_left_out(rig: Rig, id: str) -> None:
    rig.end(**SPEED, request_id=id)
    assert rig.value("decode_tokens_per_second_count", **UM) == 1
    assert exemplars(rig, "decode_tokens_per_second") == []


def test_a_status_without_a_meaning_is_counted_in_its_class(rig: Rig) -> None:
    for code in (432, 433, 404, 999):
        rig.end(outcome="rejected", code=code, answered=False)
    counted = {**UMA, "stream": "true", "outcome": "rejected"}
    assert rig.value("requests_total", **counted, code="4xx") == 2
    assert rig.value("requests_total", **counted, code="404") == 1
    assert rig.value("requests_total", **counted, code="other") == 1


def test_own_delays(rig: Rig) -> None:
    rig.tally.delays({"kind": "delays", "lag": [0.001, 0.002], "overhead": {"up": [0.00002] * 3}})
    rig.tally.delays({"kind": "delays"})
    assert rig.value("event_loop_lag_seconds_count") == 2
    assert rig.value("overhead_seconds_count", upstream="up") == 3
