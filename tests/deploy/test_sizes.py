"""Sizes that grow inside of their class are no regression, and hide none."""

import math
from pathlib import Path

import pytest
import yaml
from timelines import Series, Timeline, complaints, counts

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS

SETTINGS = PRESETS["short"]
_BEFORE = 5 * 60  # minutes
_SLOPE, _SPREAD = 0.8, 0.2  # of ln TTFT: by size, and about that line
_SMALL, _LARGE = math.log(256 + 1100), math.log(256 + 4000)  # both in 1k-4k
_COUNTERS = (
    *("cell_{}_streams", "cell_{}_log_sum", "cell_{}_log_sumsq"),
    *("{}_size_sum", "{}_size_sumsq", "{}_size_log_sum"),
)
_CELL = {"context": "1k-4k", "concurrency": "1"}


def _streams(small: float, large: float, slower: float) -> dict[str, float]:
    """What all counters of the cell gain in a minute with so many small and large prompts."""
    gained = dict.fromkeys(_COUNTERS, 0.0)
    for streams, size in ((small, _SMALL), (large, _LARGE)):
        log = 6 + _SLOPE * size + slower
        each = (1, log, log**2 + _SPREAD**2, size, size**2, size * log)
        for name, one in zip(gained, each, strict=True):
            gained[name] += streams * one
    return gained


def _series(phase: str, slower: float, small: float, large: float) -> list[Series]:
    """Small and large prompts half and half, then so many of each, slower by so much."""
    before, now = _streams(2, 2, 0), _streams(small, large, slower)
    return [
        counts(f"{name.format(phase)}_total", before[name], now[name], **_CELL) for name in before
    ]


def _near(name: str, value: float) -> dict[str, object]:
    return {
        "expr": f"sum(abs({name} - {value!r}) < bool 1e-5)",
        "eval_time": f"{_BEFORE + 24}m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


@pytest.mark.parametrize("phase", ["ttft", "tpot"])
@pytest.mark.parametrize("slower", [0.0, math.log(1.25)])
@pytest.mark.parametrize(("small", "large"), [(2, 2), (0, 4), (4, 0)])
def test_the_sizes_part_of_a_change_is_taken_out(
    phase: str, slower: float, small: float, large: float, tmp_path: Path
) -> None:
    base = 4 * ((24 + _BEFORE - 120) // 15 * 15)
    now = (small + large) * SETTINGS.index_window / 60
    variance = (now * _variance_now(small, large) + base * _SPREAD**2) / (now + base)
    checks = [
        _near(f"model:tokometer_{phase}_size_slope:baseline", _SLOPE),
        _near(f"model:tokometer_{phase}_log_ratio:like_for_like", slower),
        _near(
            f"model:tokometer_{phase}_log_ratio:standard_error",
            math.sqrt(variance * (1 / now + 1 / base)),
        ),
    ]
    _check(phase, _series(phase, slower, small, large), checks, tmp_path)


def _variance_now(small: float, large: float) -> float:
    share = large / (small + large)
    return _SPREAD**2 + (_SLOPE * (_LARGE - _SMALL)) ** 2 * share * (1 - share)


def test_without_sizes_the_change_is_what_it_was(tmp_path: Path) -> None:
    series = [one for one in _series("ttft", 0, 0, 4) if "size" not in one.name]
    drift = _SLOPE * (_LARGE - _SMALL) / 2
    _check("ttft", series, [_near("model:tokometer_ttft_log_ratio:like_for_like", drift)], tmp_path)


def _check(phase: str, series: list[Series], checks: list[dict[str, object]], folder: Path) -> None:
    groups = yaml.safe_load(files.recording(SETTINGS))["groups"]
    rules = yaml.safe_dump({"groups": [one for one in groups if phase in one["name"]]})
    document = Timeline(series, _BEFORE, 30, 1).document({"promql_expr_test": checks})
    complaint = complaints(folder, rules, 3, [document])
    assert not complaint, complaint
