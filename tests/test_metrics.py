import platform
import re
import subprocess

import pytest
from records import value

from proxy import __version__
from proxy.cells import CELLS
from proxy.exposition import OPENMETRICS, TEXT
from proxy.metrics import Metrics

CONTRACT = """
requests_total upstream,model,api,stream,outcome,code
streams upstream,model,phase
streams_stalled upstream,model
time_to_first_token_seconds upstream,model
time_to_first_visible_output_seconds upstream,model
time_to_headers_seconds upstream,model
decode_tokens_per_second upstream,model
time_per_output_token_seconds upstream,model
chunk_gap_seconds upstream,model
prefill_tokens_per_second upstream,model
request_duration_seconds upstream,model,api,stream
client_wait_seconds upstream,model
connect_seconds upstream
cell_ttft_streams_total upstream,model,context,concurrency
cell_ttft_log_sum_total upstream,model,context,concurrency
cell_ttft_log_sumsq_total upstream,model,context,concurrency
ttft_size_sum_total upstream,model,context,concurrency
ttft_size_sumsq_total upstream,model,context,concurrency
ttft_size_log_sum_total upstream,model,context,concurrency
ttft_crowd_sum_total upstream,model,context,concurrency
tpot_size_sum_total upstream,model,context,concurrency
tpot_size_sumsq_total upstream,model,context,concurrency
tpot_size_log_sum_total upstream,model,context,concurrency
cell_tpot_streams_total upstream,model,context,concurrency
cell_tpot_log_sum_total upstream,model,context,concurrency
cell_tpot_log_sumsq_total upstream,model,context,concurrency
prompt_tokens_total upstream,model,api
cached_prompt_tokens_total upstream,model,api
output_tokens_total upstream,model,api
reasoning_tokens_total upstream,model,api
output_characters_total upstream,model,api
prompt_tokens upstream,model
output_tokens upstream,model
token_counts_total upstream,model,source
skipped_total upstream,model,reason
stalls_total upstream,model
stalled_seconds_total upstream,model
objectives_total upstream,model,objective,met
ceiling_tokens_per_second upstream,model
model_info upstream,model,precision,hardware,engine
decode_characters_per_second upstream,model
tokens_per_chunk upstream,model
burst_ratio upstream,model
engine_decode_tokens_per_second upstream,model
engine_prefill_tokens_per_second upstream,model
upstream_up upstream
upstream_info upstream,engine,version
workers state
event_loop_lag_seconds
overhead_seconds upstream
label_overflow_total label
build_info version,python
"""


@pytest.fixture
def known() -> Metrics:
    """One model is known, and every gauge is set."""
    metrics = Metrics({})
    for scope in (("up",), ("up", "m"), ("up", "m", "chat"), ("up", "m", "chat", "true")):
        metrics.prepare(*scope)
    metrics.streams.set(1, "up", "m", "waiting")
    metrics.streams_stalled.set(0, "up", "m")
    metrics.upstream_up.set(1, "up")
    metrics.upstream_info.set(1, "up", "vllm", "0.32")
    metrics.workers.set(1, "ready")
    metrics.objectives.of("up", "m", "all", "true")
    metrics.ceiling.set(45.5, "up", "m")
    metrics.model_info.set(1, "up", "m", "bf16", "H200", "vLLM")
    return metrics


def test_metrics_have_the_names_and_labels_of_the_contract(known: Metrics) -> None:
    found = {
        family.name + ("_total" if family.type == "counter" else ""): set(sample.labels) - {"le"}
        for family in known.collect()
        for sample in family.samples
    }
    rows = (line.partition(" ") for line in CONTRACT.strip().splitlines())
    for name, _, labels in rows:
        assert found["tokometer_" + name] == set(filter(None, labels.split(","))), name


def test_nothing_is_defined_twice_and_everything_is_explained(known: Metrics) -> None:
    families = known.collect()
    assert len({(family.name, family.type) for family in families}) == len(families)
    assert all(re.fullmatch(r"[A-Za-z].*\.", family.documentation) for family in families)


@pytest.mark.parametrize("known_model", [True, False])
def test_promtool_has_nothing_to_say(known: Metrics, known_model: bool) -> None:
    metrics = known if known_model else Metrics({})
    text = TEXT.render(metrics.collect())
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


def test_there_are_no_created_series(known: Metrics) -> None:
    for form in (TEXT, OPENMETRICS):
        assert b"_created" not in form.render(known.collect())


def test_preparing_again_resets_nothing(known: Metrics) -> None:
    known.stalls.of("up", "m").add(3)
    known.prepare("up", "m")
    assert value(known.collect(), "tokometer_stalls_total", upstream="up", model="m") == 3


def test_a_model_costs_a_known_number_of_lines(known: Metrics) -> None:
    before = TEXT.render(known.collect()).count(b"\n")
    for scope in (("up", "n"), ("up", "n", "chat"), ("up", "n", "chat", "true")):
        known.prepare(*scope)
    lines = TEXT.render(known.collect()).count(b"\n") - before
    assert len(CELLS) * 12 < lines < 1250


def test_overrides_of_buckets_are_used() -> None:
    metrics = Metrics({"chunk_gap_seconds": [0.5, 1.0]})
    metrics.chunk_gap.of("up", "m").observe(0.7)
    bounds = [
        sample.labels.get("le")
        for f in metrics.collect()
        for sample in f.samples
        if sample.name == "tokometer_chunk_gap_seconds_bucket"
    ]
    assert bounds == ["0.5", "1.0", "+Inf"]


def test_an_override_of_something_else_is_an_error_in_one_line() -> None:
    with pytest.raises(ValueError, match="there is no histogram tokometer_requests_total"):
        Metrics({"tokometer_requests_total": [1.0]})


def test_what_runs_is_told(known: Metrics) -> None:
    labels = {"version": __version__, "python": platform.python_version()}
    assert value(known.collect(), "tokometer_build_info", **labels) == 1
