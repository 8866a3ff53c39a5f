"""The alerts that people write without cells, for comparison: as they stand in many a wiki.

Both know of the least number of streams and wait as long as ours do.
"""

_LEAST = "sum by (upstream, model) (increase({metric}_count[15m])) >= 20"
_TIMES = {
    "decode": "tokometer_time_per_output_token_seconds",
    "prefill": "tokometer_time_to_first_token_seconds",
}
PHASES = {
    f"{name}_{phase}": phase for name in ("P95AgainstYesterday", "ZScore") for phase in _TIMES
}
_GROUP = "sum by (upstream, model"


def _p95(metric: str, offset: str) -> str:
    return f"histogram_quantile(0.95, {_GROUP}, le) (rate({metric}_bucket[15m]{offset})))"


def _alert(name: str, condition: str, metric: str) -> str:
    return f"""\
  - alert: {name}
    expr: ({condition}) and {_LEAST.format(metric=metric)}
    for: 10m
"""


def rules(day: str) -> str:
    """A file of rules; `day` is how far back they look (`1d`)."""
    text = "groups:\n- name: usual\n  interval: 1m\n  rules:\n"
    for phase, metric in _TIMES.items():
        mean = f"{phase}:mean"
        rate = f"{_GROUP}) (rate({metric}_sum[15m])) / ({_GROUP}) (rate({metric}_count[15m])) > 0)"
        text += f"  - record: {mean}\n    expr: {rate}\n"
        yesterday = f"{_p95(metric, '')} > 1.5 * {_p95(metric, f' offset {day}')}"
        text += _alert(f"P95AgainstYesterday_{phase}", yesterday, metric)
        usual = f"avg_over_time({mean}[{day}] offset 1h)"
        spread = f"stddev_over_time({mean}[{day}] offset 1h)"
        score = f"({mean} - {usual}) / ({spread} > 0) > 3"
        text += _alert(f"ZScore_{phase}", score, metric)
    return text
