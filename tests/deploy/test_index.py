"""The like-for-like index as promtool evaluates it, against the formulas written out here."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from timelines import SCOPE, Series, Timeline, complaints, counts

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS

SETTINGS = PRESETS["short"]
# Five hours, of which the baseline, which ends two hours ago, covers whole quarters.
_BEFORE = 5 * 60


@dataclass(frozen=True)
class Cell:
    """Streams a minute, mean of ln of microseconds, standard deviation: baseline and now."""

    context: str
    concurrency: str
    before: tuple[float, float, float]
    now: tuple[float, float, float]

    def series(self, phase: str) -> list[Series]:
        labels = {"context": self.context, "concurrency": self.concurrency}
        sums = [
            (n, n * mean, n * (mean**2 + spread**2)) for n, mean, spread in (self.before, self.now)
        ]
        names = ("streams", "log_sum", "log_sumsq")
        return [
            counts(f"cell_{phase}_{name}_total", normal, then, **labels)
            for name, normal, then in zip(names, *sums, strict=True)
        ]


CELLS = [
    Cell("0-1k", "1", (4, 9.0, 0.2), (1, 9.1, 0.3)),
    Cell("4k-16k", "8-15", (1, 10.0, 0.3), (3, 10.3, 0.2)),
    Cell("64k+", "64+", (0, 11.0, 0.1), (2, 11.5, 0.1)),  # of which there is no baseline
    Cell("16k-64k", "1", (0.5, 10.5, 0.2), (0, 10.5, 0.2)),  # of which there is no now
]


class Expected:
    """What the rules should give at the end, from the definition."""

    def __init__(self, baseline_minutes: float, now_minutes: float) -> None:
        base = [cell.before[0] * baseline_minutes for cell in CELLS]
        now = [cell.now[0] * now_minutes for cell in CELLS]
        both = [i for i in range(len(CELLS)) if base[i] > 30 and now[i]]
        ratio = {i: CELLS[i].now[1] - CELLS[i].before[1] for i in both}
        weight = {i: now[i] * base[i] / (now[i] + base[i]) for i in both}
        self.log = sum(weight[i] * ratio[i] for i in both) / sum(weight.values())
        variance = {
            i: (now[i] * CELLS[i].now[2] ** 2 + base[i] * CELLS[i].before[2] ** 2)
            / (now[i] + base[i])
            for i in both
        }
        errors = [weight[i] ** 2 * variance[i] * (1 / now[i] + 1 / base[i]) for i in both]
        self.error = math.sqrt(sum(errors)) / sum(weight.values())
        self.coverage = sum(now[i] for i in both) / sum(now)
        of_base = sum(base[i] * ratio[i] for i in both) / sum(base[i] for i in both)
        self.laspeyres = math.exp(of_base)
        means = [(c.now[1], c.before[1]) for c in CELLS]
        self.raw = sum(n * m for n, (m, _) in zip(now, means, strict=True)) / sum(now)
        self.raw -= sum(n * m for n, (_, m) in zip(base, means, strict=True)) / sum(base)


@pytest.mark.parametrize("phase", ["tpot", "ttft"])
def test_the_index_its_error_and_its_parts_are_those_of_the_definition(
    phase: str, tmp_path: Path
) -> None:
    at = _BEFORE + 66
    # Quarters that were whole, and recorded, two hours before: the first ended at 15 minutes.
    baseline = (at - 120) // 15 * 15
    short = Expected(baseline, SETTINGS.index_window / 60)
    long = Expected(baseline, SETTINGS.index_long_window / 60)
    model = f"model:tokometer_{phase}"
    values = {
        f"{model}_index:laspeyres": short.laspeyres,
        f"{model}_log_ratio:raw": short.raw,
        f"{model}_log_ratio:mix": short.raw - short.log,
    }
    for expected, suffix in ((short, ""), (long, "_long")):
        values |= {
            f"{model}_log_ratio:like_for_like{suffix}": expected.log,
            f"{model}_index:like_for_like{suffix}": math.exp(expected.log),
            f"{model}_log_ratio:standard_error{suffix}": expected.error,
            f"{model}_coverage:ratio{suffix}": expected.coverage,
        }
    # promtool compares to the last bit, so that it is asked whether it is near.
    checks: list[dict[str, Any]] = [
        {
            "expr": f"sum(abs({name} - {value!r}) < bool 1e-6)",
            "eval_time": f"{at}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for name, value in values.items()
    ]
    checks.append(_labels_of(f"{model}_index:like_for_like", at))
    series = [one for cell in CELLS for one in cell.series(phase)]
    line = Timeline(series, _BEFORE, 70, 1, step=3)
    rules = yaml.safe_dump({"groups": list(_groups(phase))})
    complaint = complaints(
        tmp_path, rules, line.step, [line.document({"promql_expr_test": checks})]
    )
    assert not complaint, complaint


def _groups(phase: str) -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(files.recording(SETTINGS))["groups"]:
        if phase in group["name"]:
            yield group


def _labels_of(name: str, at: int) -> dict[str, Any]:
    labels = ",".join(f'{label}="{text}"' for label, text in SCOPE.items())
    samples = [{"labels": f"{{{labels}}}", "value": 1}]
    return {"expr": f"{name} > bool 0", "eval_time": f"{at}m", "exp_samples": samples}
