"""Alerts that compare with a past."""

import math
from dataclasses import replace

from examples import Below, Example
from timelines import SCOPE, Series, counts, gauge, histogram

# A baseline ends a day ago, a short one two hours: there must have been one.
_BEFORE = 27 * 60
_EARLY = 4 * 60
_KNOWN = {"context": "0-1k", "concurrency": "1"}
_NEW = {"context": "64k+", "concurrency": "1"}
_MEAN = 10.0  # ln of 22 ms in microseconds


def _cell(
    phase: str,
    normal: float = 2,
    then: float = 2,
    slower: float = 1,
    spread: float = 0.05,
    cell: dict[str, str] = _KNOWN,
) -> list[Series]:
    """Counters of a cell: streams a minute before and after, how much slower, their spread."""
    mean = _MEAN + math.log(slower)
    return [
        counts(f"cell_{phase}_streams_total", normal, then, **cell),
        counts(f"cell_{phase}_log_sum_total", normal * _MEAN, then * mean, **cell),
        counts(
            f"cell_{phase}_log_sumsq_total",
            normal * (_MEAN**2 + 0.05**2),
            then * (mean**2 + spread**2),
            **cell,
        ),
    ]


def _gates(phase: str, almost: float, setting: str) -> dict[str, Below]:
    other = _cell(phase, normal=0, then=6, cell=_NEW)
    many = [replace(one, labels={**one.labels, "model": "other"}) for one in _cell(phase, slower=2)]
    return {
        "of many models": Below(many, None),
        f"{almost}": Below(_cell(phase, slower=almost), {setting: almost - 0.01}),
        "uncertain": Below(_cell(phase, slower=1.25, spread=1.3), {"regression_errors": 2}),
        "of other work": Below([*_cell(phase, slower=1.25), *other], {"regression_coverage": 0.2}),
        "few": Below(_cell(phase, then=0.24, slower=1.25), {"regression_streams": 3}),
    }


def _by_luck(phase: str) -> Below:
    """Four standard errors of streams that have nothing in common."""
    return Below(_cell(phase, slower=1.25, spread=0.934), {"regression_shared_error": 0})


def _regression(alert: str, phase: str, what: str) -> Example:
    return Example(
        alert,
        SCOPE,
        "warning",
        _cell(phase, slower=1.25),
        (8, 32),
        f"org/m on up: {what} is 1.25 times that of the baseline, for the same work",
        {**_gates(phase, 1.14, "regression_index"), "by luck": _by_luck(phase)},
        _BEFORE,
        step=4,
        early=_EARLY,
    )


def _sparse(
    phase: str, then: float = 0.2, slower: float = 1.25, spread: float = 0.05
) -> list[Series]:
    """So few streams that only the long window has enough."""
    return _cell(phase, then=then, slower=slower, spread=spread)


def _regression_of_few(alert: str, phase: str, what: str) -> Example:
    other = _cell(phase, normal=0, then=0.3, cell=_NEW)
    return Example(
        alert,
        SCOPE,
        "warning",
        _sparse(phase),
        (56, 80),
        f"org/m on up: {what} is 1.25 times that of the baseline, for the same work",
        {
            "1.145 for an hour": Below(_sparse(phase, slower=1.145), {"regression_index": 1.135}),
            "uncertain for an hour": Below(_sparse(phase, spread=1.75), {"regression_errors": 2}),
            "other work for an hour": Below(
                [*_sparse(phase), *other], {"regression_coverage": 0.35}
            ),
            "few for an hour": Below(_sparse(phase, then=0.08), {"regression_streams": 4}),
        },
        _BEFORE,
        during=90,
        step=4,
        early=_EARLY,
    )


def _deploy(changed: bool = True) -> list[Series]:
    labels = {"engine": "vllm"}
    return [
        gauge("upstream_info", 1, None if changed else 1, **labels, version="1"),
        gauge("upstream_info", None, 1 if changed else None, **labels, version="2"),
    ]


def _after_deploy(label: str, phase: str, what: str) -> Example:
    gates = {
        name: Below([*below.series, *_deploy()], below.loosened)
        for name, below in _gates(phase, 1.07, "deploy_index").items()
    }
    gates["no new version"] = Below([*_cell(phase, slower=1.1), *_deploy(changed=False)], None)
    return Example(
        "RegressionAfterDeploy",
        {**SCOPE, "phase": label},
        "warning",
        [*_cell(phase, slower=1.1), *_deploy()],
        (8, 32),
        f"org/m on up: since the new version {what} is 1.10 times that of the baseline, "
        "for the same work",
        gates,
        _BEFORE,
        step=4,
        early=_EARLY,
    )


def _thin(label: str, phase: str, what: str) -> Example:
    def mixed(old: float, new: float) -> list[Series]:
        return [*_cell(phase, then=old), *_cell(phase, normal=0, then=new, cell=_NEW)]

    return Example(
        "BaselineThin",
        {**SCOPE, "phase": label},
        "info",
        mixed(1, 1.5),
        (5 * 60, 6 * 60 + 32),
        f"org/m on up: only 40% of the streams have a baseline for their {what}",
        {"51 %": Below(mixed(1.02, 0.98), {"thin_coverage": 0.52})},
        _BEFORE,
        7 * 60,
        step=4,
    )


_TTFT, _DECODE = "time_to_first_token_seconds", "decode_tokens_per_second"
_FAST = {"0.5": 2.0}

_TTFT_ABOVE = Example(
    "TTFTAboveBaseline",
    SCOPE,
    "info",
    histogram(_TTFT, _FAST, {"1.0": 1.6, "2.0": 0.4}),
    (8, 88),
    "org/m on up: TTFT p95 of the last hour is 1.75s, more than 1.5 times that of this hour on "
    "other days",
    {
        "1.45 times": Below(histogram(_TTFT, _FAST, {"0.5": 0, "0.7": 2}), {"ttft_factor": 1.4}),
        "0.19 s": Below(histogram(_TTFT, {"0.1": 2}, {"0.2": 0, "0.3": 2}), {"ttft_seconds": 0.19}),
        "few": Below(histogram(_TTFT, {"0.5": 0.8}, {"1.0": 0, "2.0": 0.8}), {"ttft_streams": 45}),
    },
    _BEFORE,
    90,
    120,
    step=4,
)

_USUAL = {"31.5": 1.0, "25.0": 0, "20.0": 0, "16.0": 0}

_DECODE_BELOW = Example(
    "DecodeBelowBaseline",
    SCOPE,
    "info",
    histogram(_DECODE, _USUAL, {"20.0": 1}),
    (8, 88),
    "org/m on up: the median decode rate of the last hour is 18.0 tokens/s, less than 0.75 of "
    "that of this hour on other days",
    {
        "0.8": Below(histogram(_DECODE, _USUAL, {"25.0": 1}), {"decode_factor": 0.81}),
        "few": Below(histogram(_DECODE, _USUAL, {"20.0": 0.3}), {"decode_streams": 15}),
    },
    _BEFORE,
    90,
    120,
    step=4,
)


def _canary(label: str, name: str, values: tuple[float, float, float], summary: str) -> Example:
    normal, slow, almost = values
    setting = {"prefill": ("canary_ttft_factor", 1.4), "decode": ("canary_decode_factor", 0.85)}
    field, loosened = setting[label]
    below = [gauge(f"canary_{name}", normal, almost)]
    return Example(
        "CanarySlow",
        {**SCOPE, "phase": label},
        "warning",
        [gauge(f"canary_{name}", normal, slow)],
        (8, 44),
        f"org/m on up: {summary}",
        {f"{almost}": Below(below, {field: loosened})},
        _BEFORE,
        step=4,
        early=_EARLY,
        # A canary is a model's own traffic: without it there is nothing.
        quiet=[gauge(f"canary_{name}", normal, None)],
    )


EXAMPLES = [
    _regression("DecodeRegression", "tpot", "time per output token"),
    _regression("PrefillRegression", "ttft", "time to first token"),
    _regression_of_few("DecodeRegression", "tpot", "time per output token"),
    _regression_of_few("PrefillRegression", "ttft", "time to first token"),
    _after_deploy("decode", "tpot", "time per output token"),
    _after_deploy("prefill", "ttft", "time to first token"),
    _thin("decode", "tpot", "time per output token"),
    _thin("prefill", "ttft", "time to first token"),
    _TTFT_ABOVE,
    _DECODE_BELOW,
    _canary(
        "prefill",
        _TTFT,
        (0.2, 0.32, 0.29),
        "the canary's TTFT is 320ms, more than 1.5 times its baseline",
    ),
    _canary(
        "decode",
        _DECODE,
        (50, 38, 41),
        "the canary gets 38.0 tokens/s, less than 0.8 of its baseline",
    ),
]
