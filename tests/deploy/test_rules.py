"""The recording rules: names, what they are made of, and that nothing is never a number."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from timelines import ROOT, Rules, Timeline, complaints, counts, histogram

from deploy.prometheus.rules.settings import Settings
from grafana.queries import share_errors
from proxy.metrics import Metrics
from proxy.series import Family, Histogram

COMMITTED = Rules.committed()
RECORDS = [rule for group in COMMITTED.groups for rule in group["rules"]]
EXPRESSIONS = {
    **{f"{rule['record']} {rule.get('labels', '')}": rule["expr"] for rule in RECORDS},
    **{f"{rule['alert']} {rule['labels']}": rule["expr"] for rule in COMMITTED.alerts["rules"]},
}
LEVELS = {"cell", "concurrency", "context", "instance", "model", "upstream"}
_METRIC = re.compile(r"(?<![\w:])tokometer_\w+(?!:)(?:\{([^}]*)\})?")


def families() -> dict[str, Family]:
    found = {}
    for family in Metrics({})._families:
        found[family.name] = family
        if isinstance(family, Histogram):
            found |= {f"{family.name}_{part}": family for part in ("bucket", "count", "sum")}
    return found


FAMILIES = families()


def selectors(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Names of metrics, and values of the labels that they are chosen by."""
    for match in _METRIC.finditer(expression):
        chosen = dict(re.findall(r'(\w+)=~?"([^"]*)"', match[1] or ""))
        yield match[0].partition("{")[0], chosen


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_metric_and_label_is_one_that_the_proxy_exports(expression: str) -> None:
    for metric, chosen in selectors(expression):
        labels = {*FAMILIES[metric].labels, *(["le"] if metric.endswith("_bucket") else [])}
        assert chosen.keys() <= labels, metric


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_bounds_of_buckets_are_written_as_they_are_exported(expression: str) -> None:
    for metric, chosen in selectors(expression):
        if "le" in chosen:
            family = FAMILIES[metric]
            assert isinstance(family, Histogram)
            assert chosen["le"] in family._les


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_recorded_series_that_is_used_is_recorded(expression: str) -> None:
    recorded = {rule["record"] for rule in RECORDS}
    assert COMMITTED.needed(expression) <= recorded


@pytest.mark.parametrize("rule", RECORDS, ids=[rule["record"] for rule in RECORDS])
def test_names_are_level_metric_operations(rule: dict[str, str]) -> None:
    level, metric, operations = rule["record"].split(":")
    assert level in LEVELS
    assert re.fullmatch("tokometer_[a-z0-9_]+", metric)
    assert re.fullmatch("[a-z0-9_]+", operations)


@pytest.mark.parametrize("group", COMMITTED.groups, ids=[one["name"] for one in COMMITTED.groups])
def test_no_series_is_too_old_to_be_found_before_the_next(group: dict[str, str]) -> None:
    # Prometheus looks back five minutes.
    assert group["interval"] in {"1m", "4m"}


def test_prometheus_takes_the_configuration_and_has_nothing_to_remark() -> None:
    config = str(ROOT / "deploy/prometheus/prometheus.yml")
    command = ["promtool", "check", "config", "--lint=all", "--lint-fatal", config]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scrape_names_the_job_that_the_alerts_expect() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    assert re.fullmatch(Settings().job, job["job_name"])


def test_without_traffic_nothing_is_recorded_as_nan_or_infinite(tmp_path: Path) -> None:
    labels = {"context": "0-1k", "concurrency": "1"}
    names = [f"cell_{p}_{c}_total" for p in ("tpot", "ttft") for c in ("streams", "log_sum")]
    series = [counts(name, 0, 0, **labels) for name in names]
    nothing = {"5.0": 0.0, "10.0": 0.0, "20.0": 0.0}
    for name in ("decode_tokens_per_second", "time_to_first_token_seconds", "overhead_seconds"):
        series += histogram(name, nothing, nothing)
    for name in ("requests", "stalls", "output_tokens", "objectives", "token_counts"):
        series.append(counts(f"{name}_total", 0, 0, objective="all", met="true", source="none"))
    checks = [
        {"expr": f"{name} != {name} or abs({name}) == Inf", "eval_time": "100m", "exp_samples": []}
        for name in {rule["record"] for rule in RECORDS}
    ]
    rules = (ROOT / "deploy/prometheus/tokometer.rules.yml").read_text("utf-8")
    tests = [Timeline(series, 60, 30, 30).document({"promql_expr_test": checks})]
    complaint = complaints(tmp_path, rules, 4, tests)
    assert not complaint, complaint


def test_a_4xx_is_no_failure_whoever_gave_it(tmp_path: Path) -> None:
    ended = {("completed", "200"): 6, ("client_closed", "200"): 1}
    clients = {("rejected", "404"): 2, ("rejected", "429"): 4, ("aborted", "408"): 3}
    failed = {("rejected", "500"): 1, ("truncated", "200"): 1, ("aborted", "503"): 2}
    series = [
        counts("requests_total", number, number, outcome=outcome, code=code)
        for (outcome, code), number in (ended | clients | failed).items()
    ]
    check = {
        "expr": "model:tokometer_errors:ratio",
        "eval_time": "30m",
        "exp_samples": [
            {
                "labels": 'model:tokometer_errors:ratio{job="tokometer", model="org/m", '
                'upstream="up"}',
                "value": sum(failed.values()) / sum((ended | clients | failed).values()),
            }
        ],
    }
    rules = (ROOT / "deploy/prometheus/tokometer.rules.yml").read_text("utf-8")
    tests = [Timeline(series, 60, 1, 1).document({"promql_expr_test": [check]})]
    complaint = complaints(tmp_path, rules, 1, tests)
    assert not complaint, complaint


def test_the_readme_and_the_boards_take_for_failures_what_the_rules_do() -> None:
    selector = 'outcome!~"completed|client_closed", code!~"4.."'
    assert selector in EXPRESSIONS["model:tokometer_errors:ratio "]
    assert selector in (ROOT / "README.md").read_text("utf-8")
    assert selector.replace(", ", ",") in share_errors()
