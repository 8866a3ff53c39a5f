"""What users feel: quantiles, streams slower than reading, stalls, speed by load and by context."""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import MODEL, Group, Record, promql, total
from deploy.prometheus.rules.settings import Settings, duration

TTFT = "tokometer_time_to_first_token_seconds"
DECODE = "tokometer_decode_tokens_per_second"


def groups(settings: Settings) -> Iterator[Group]:
    """Speeds of the last minutes, and those of the same hour before."""
    now = [*_shares(settings), *_stalls(settings), *_curves(settings)]
    yield Group("tokometer-speeds", settings.fast, now)
    yield Group("tokometer-references", settings.slow, list(_references(settings)))


def _shares(settings: Settings) -> Iterator[Record]:
    window = duration(settings.now)
    counted = total(MODEL, f"increase({DECODE}_count[{window}])")
    yield Record(
        "model:tokometer_decode_streams:increase",
        counted,
        f"streams with a decode rate, the last {window}",
    )
    for speed in settings.speeds:
        # As client libraries and Prometheus 3 write a bound: "5" would match nothing.
        slow = f'{DECODE}_bucket{{le="{float(speed)}"}}'
        yield Record(
            "model:tokometer_decode_streams:share_slower",
            promql(f"""
                {total(MODEL, f"increase({slow}[{window}])")}
                  / (model:tokometer_decode_streams:increase > 0)
            """),
            f"share of streams that are not faster than {speed} tokens/s",
            {"tokens_per_second": str(speed)},
        )


def _stalls(settings: Settings) -> Iterator[Record]:
    window = duration(settings.now)
    yield Record(
        "model:tokometer_started_streams:increase",
        total(MODEL, f"increase({TTFT}_count[{window}])"),
        f"streams that began to answer, the last {window}",
    )
    yield Record(
        "model:tokometer_stalls:per_stream",
        promql(f"""
            {total(MODEL, f"increase(tokometer_stalls_total[{window}])")}
              / (model:tokometer_started_streams:increase > 0)
        """),
        f"stalls for each of them, the last {window}",
    )
    yield Record(
        "model:tokometer_streams_stalled:sum",
        total(MODEL, "tokometer_streams_stalled"),
        "streams that stand still now",
    )


def _curves(settings: Settings) -> Iterator[Record]:
    """Speed against concurrency and against context: what boards draw as curves."""
    for level in ("concurrency", "context"):
        for phase, name, formula in (
            ("tpot", "decode_tokens_per_second", "1e6 / exp({mean})"),
            ("ttft", "time_to_first_token_seconds", "exp({mean}) / 1e6"),
        ):
            labels = f"{MODEL}, {level}"
            sums = total(labels, _tiles(settings, phase, "log_sum"))
            streams = total(labels, _tiles(settings, phase, "streams"))
            mean = f"{sums} / ({streams} > {settings.curve_streams})"
            yield Record(
                f"{level}:tokometer_{name}:geometric_mean",
                formula.format(mean=f"\n  {mean}\n"),
                f"by class of {level}, the last {duration(settings.curve_window)}",
            )


def _tiles(settings: Settings, phase: str, counter: str) -> str:
    window, tile = duration(settings.curve_window), duration(settings.baseline.tile)
    return f"sum_over_time(cell:tokometer_{phase}_{counter}:tile[{window}:{tile}])"


def _references(settings: Settings) -> Iterator[Record]:
    """Quantiles of an hour, and the worst and best of them at the same hour of other days."""
    window = duration(settings.quantile_window)
    for metric, quantile, name, worst in (
        (TTFT, 0.95, "p95", "max"),
        (DECODE, 0.5, "p50", "min"),
    ):
        rate = total(f"{MODEL}, le", f"rate({metric}_bucket[{window}])")
        yield Record(
            f"model:{metric}:{name}",
            f"histogram_quantile({quantile}, {rate}) >= 0",
            f"quantile {quantile}, the last {window}",
        )
        yield Record(
            f"model:{metric}:count",
            total(MODEL, f"increase({metric}_count[{window}])"),
            f"streams in it, the last {window}",
        )
        yield Record(
            f"model:{metric}:{name}_reference",
            _other_days(settings, f"model:{metric}:{name}", worst),
            f"{worst} of the same at this hour of other days",
        )


def _other_days(settings: Settings, series: str, worst: str) -> str:
    days = [
        f'label_replace({series} offset {duration(age)}, "ago", "{duration(age)}", "", "")'
        for age in settings.reference_ages
    ]
    return f"{worst} by ({MODEL}) (\n  " + "\n  or ".join(days) + "\n)"
