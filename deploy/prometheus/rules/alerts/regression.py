"""Slower than before: like for like, after a deploy, beside other days, by the canary."""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import Alert, promql
from deploy.prometheus.rules.service import CHANGED
from deploy.prometheus.rules.settings import Settings, duration
from deploy.prometheus.rules.window import windows

_SAME_WORK = (
    "Prompt length and load are taken out: this is the server itself. Look at the cells on the "
    "board (is it all of them, or long contexts, or high load only?), then at what changed: "
    "engine version, model file, batch settings, clocks and temperature of the accelerators."
)
# Phase of the index, name of the alert, what is slow.
_PHASES = (
    ("tpot", "decode", "DecodeRegression", "time per output token"),
    ("ttft", "prefill", "PrefillRegression", "time to first token"),
)


def alerts(settings: Settings) -> Iterator[Alert]:
    """What compares with a past."""
    for phase, _, name, what in _PHASES:
        yield _regression(settings, phase, name, what)
    for phase, label, _, what in _PHASES:
        yield _after_deploy(settings, phase, label, what)
    yield _ttft_above(settings)
    yield _decode_below(settings)
    yield from _canary_slow(settings)
    for phase, label, _, what in _PHASES:
        yield _thin(settings, phase, label, what)


def _slower(settings: Settings, phase: str, index: float, shared: float) -> str:
    """Over the short window or over the long one."""
    each = (_over(settings, phase, index, shared, window.suffix) for window in windows(settings))
    return "\nor\n".join(each)


def _over(settings: Settings, phase: str, index: float, shared: float, suffix: str) -> str:
    """Effect, certainty, coverage and a few streams at least: none of them is enough alone.

    `other` is many models, whose mix may change.
    """
    model = f"model:tokometer_{phase}"
    error = f"{model}_log_ratio:standard_error{suffix}"
    if shared:
        error = f"({error} ^ 2 + {round(shared**2, 12)}) ^ 0.5"
    return promql(f"""
        {model}_index:like_for_like{suffix}{{model!="other"}} > {index}
          and {model}_log_ratio:like_for_like{suffix} > {settings.regression_errors} * {error}
          and {model}_coverage:ratio{suffix} > {settings.regression_coverage}
          and {model}_streams:matched{suffix} >= {settings.regression_streams}
    """)


def _regression(settings: Settings, phase: str, name: str, what: str) -> Alert:
    return Alert(
        name,
        "warning",
        _slower(settings, phase, settings.regression_index, settings.regression_shared_error),
        settings.regression_hold,
        f'{{{{ $labels.model }}}} on {{{{ $labels.upstream }}}}: {what} is {{{{ printf "%.2f" '
        "$value }} times that of the baseline, for the same work",
        _SAME_WORK,
        "regression",
    )


def _after_deploy(settings: Settings, phase: str, label: str, what: str) -> Alert:
    slower = _slower(settings, phase, settings.deploy_index, settings.deploy_shared_error)
    return Alert(
        "RegressionAfterDeploy",
        "warning",
        f"(\n{slower}\n)\nand on (job, upstream) {CHANGED}",
        settings.deploy_hold,
        f"{{{{ $labels.model }}}} on {{{{ $labels.upstream }}}}: since the new version {what} is "
        '{{ printf "%.2f" $value }} times that of the baseline, for the same work',
        "The upstream's engine or version changed within the last "
        f"{duration(settings.deploy_watch)}. Compare the two versions on the board; if the old "
        "one was faster in the same cells, go back to it.",
        "regression",
        {"phase": label},
    )


def _ttft_above(settings: Settings) -> Alert:
    p95 = "model:tokometer_time_to_first_token_seconds:p95"
    count = "model:tokometer_time_to_first_token_seconds:count"
    return Alert(
        "TTFTAboveBaseline",
        "info",
        promql(f"""
            {p95} > {settings.ttft_factor} * {p95}_reference
              and {p95} - {p95}_reference > {settings.ttft_seconds}
              and {count} >= {settings.ttft_streams}
        """),
        settings.reference_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: TTFT p95 of the last hour is "
        "{{ humanizeDuration $value }}, more than "
        f"{settings.ttft_factor} times that of this hour on other days",
        "Not corrected for mix: longer prompts or more users do this too. Look at the "
        "like-for-like index first; if it is near 1, look at prompt length and load.",
        "regression",
    )


def _decode_below(settings: Settings) -> Alert:
    p50 = "model:tokometer_decode_tokens_per_second:p50"
    count = "model:tokometer_decode_tokens_per_second:count"
    return Alert(
        "DecodeBelowBaseline",
        "info",
        promql(f"""
            {p50} < {settings.decode_factor} * {p50}_reference
              and {count} >= {settings.decode_streams}
        """),
        settings.reference_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: the median decode rate of the last hour "
        'is {{ printf "%.1f" $value }} tokens/s, less than '
        f"{settings.decode_factor} of that of this hour on other days",
        "Not corrected for mix: longer contexts or more users do this too. Look at the "
        "like-for-like index first; if it is near 1, look at context and concurrency.",
        "regression",
    )


def _canary_slow(settings: Settings) -> Iterator[Alert]:
    ttft = "model:tokometer_canary_time_to_first_token_seconds"
    decode = "model:tokometer_canary_decode_tokens_per_second"
    description = (
        "The canary always sends the same prompt, so that only load and the server itself are "
        "left. Compare with users' speeds: if those hold, the canary met a busy moment."
    )
    for label, expression, summary in (
        (
            "prefill",
            f"{ttft}:median_now > {settings.canary_ttft_factor} * {ttft}:median_baseline",
            "the canary's TTFT is {{ humanizeDuration $value }}, more than "
            f"{settings.canary_ttft_factor} times its baseline",
        ),
        (
            "decode",
            f"{decode}:median_now < {settings.canary_decode_factor} * {decode}:median_baseline",
            'the canary gets {{ printf "%.1f" $value }} tokens/s, less than '
            f"{settings.canary_decode_factor} of its baseline",
        ),
    ):
        yield Alert(
            "CanarySlow",
            "warning",
            expression,
            settings.canary_slow_hold,
            f"{{{{ $labels.model }}}} on {{{{ $labels.upstream }}}}: {summary}",
            description,
            "overview",
            {"phase": label},
        )


def _thin(settings: Settings, phase: str, label: str, what: str) -> Alert:
    return Alert(
        "BaselineThin",
        "info",
        f"model:tokometer_{phase}_coverage:ratio < {settings.thin_coverage}",
        settings.thin_hold,
        "{{ $labels.model }} on {{ $labels.upstream }}: only {{ humanizePercentage $value }} of "
        f"the streams have a baseline for their {what}",
        f"Regressions are not told below {settings.regression_coverage:.0%}. The installation is "
        "new, or the work is of a kind that the baseline has not seen: wait, take a shorter "
        "baseline, or pin one.",
        "regression",
        {"phase": label},
    )
