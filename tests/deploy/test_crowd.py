"""A concurrency that grows inside of its class is no slower prefill, and hides none."""

import math
from pathlib import Path

import pytest
import yaml
from timelines import Series, Timeline, complaints, counts

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS

_BEFORE = 5 * 60  # minutes
_BY_CROWD, _BY_SIZE, _SPREAD = 0.6, 0.8, 0.2  # slopes of ln TTFT, and its spread about them
_SIZES = {"0-1k": math.log(256 + 500), "1k-4k": math.log(256 + 2000)}
_SIZE_SPREAD = 0.3
_CLASSES = {"4-7": math.log(8 + 5), "8-15": math.log(8 + 10)}
_BUSIER = math.log(8 + 15)


def _gained(streams: float, size: float, crowd: float, slower: float) -> dict[str, float]:
    """What the counters of a cell gain in a minute; sizes spread about `size`."""
    log, varied = 6 + _BY_SIZE * size + _BY_CROWD * crowd + slower, _SIZE_SPREAD**2
    each = {
        "cell_ttft_streams": 1,
        "cell_ttft_log_sum": log,
        "cell_ttft_log_sumsq": log**2 + _SPREAD**2,
        "ttft_size_sum": size,
        "ttft_size_sumsq": size**2 + varied,
        "ttft_size_log_sum": size * log + _BY_SIZE * varied,
        "ttft_crowd_sum": crowd,
    }
    return {name: streams * value for name, value in each.items()}


def _series(slower: float, busier: bool) -> list[Series]:
    """Both contexts at both concurrencies; then all streams are in the class of the higher one."""
    series = []
    for context, size in _SIZES.items():
        for concurrency, crowd in _CLASSES.items():
            stays = concurrency == "8-15" or not busier
            before = _gained(2, size, crowd, 0)
            then = _gained(2 * stays, size, _BUSIER if busier else crowd, slower)
            cell = {"context": context, "concurrency": concurrency}
            series += [counts(f"{name}_total", before[name], then[name], **cell) for name in before]
    return series


def _near(name: str, value: float) -> dict[str, object]:
    return {
        "expr": f"sum(abs({name} - {value!r}) < bool 1e-5)",
        "eval_time": f"{_BEFORE + 63}m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def _check(series: list[Series], checks: list[dict[str, object]], folder: Path) -> None:
    groups = yaml.safe_load(files.recording(PRESETS["short"]))["groups"]
    rules = yaml.safe_dump({"groups": [one for one in groups if "ttft" in one["name"]]})
    document = Timeline(series, _BEFORE, 70, 1).document({"promql_expr_test": checks})
    complaint = complaints(folder, rules, 3, [document])
    assert not complaint, complaint


@pytest.mark.parametrize("slower", [0.0, math.log(1.25)])
@pytest.mark.parametrize("busier", [False, True])
def test_the_crowds_part_of_a_change_is_taken_out(
    slower: float, busier: bool, tmp_path: Path
) -> None:
    checks = [
        _near("model:tokometer_ttft_size_slope:baseline", _BY_SIZE),
        _near("model:tokometer_ttft_crowd_slope:baseline", _BY_CROWD),
        _near("model:tokometer_ttft_log_ratio:like_for_like", slower),
        _near("model:tokometer_ttft_log_ratio:like_for_like_long", slower),
    ]
    _check(_series(slower, busier), checks, tmp_path)


def test_without_it_the_change_is_what_it_was(tmp_path: Path) -> None:
    series = [one for one in _series(0, True) if "crowd" not in one.name]
    drift = _BY_CROWD * (_BUSIER - _CLASSES["8-15"])
    _check(series, [_near("model:tokometer_ttft_log_ratio:like_for_like", drift)], tmp_path)


def test_a_baseline_of_one_concurrency_has_no_slope(tmp_path: Path) -> None:
    series = [one for one in _series(0, True) if one.labels["concurrency"] == "8-15"]
    drift = _BY_CROWD * (_BUSIER - _CLASSES["8-15"])
    _check(series, [_near("model:tokometer_ttft_log_ratio:like_for_like", drift)], tmp_path)
