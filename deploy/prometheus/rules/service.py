"""The canary, deploys, token counts, and the proxy itself."""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import MODEL, Group, Record, promql, total
from deploy.prometheus.rules.settings import Settings, duration

CHANGED = "upstream:tokometer_upstream_info:changed"


def groups(settings: Settings) -> Iterator[Group]:
    """What is not about the traffic of users."""
    now = [
        _changed(settings),
        *_canary(settings, "now"),
        _uncounted(settings),
        *_overhead(settings),
        *_traffic(settings),
    ]
    yield Group("tokometer-service", settings.fast, now)
    baseline = list(_canary(settings, "baseline"))
    yield Group("tokometer-canary-baseline", settings.slow, baseline)


def _changed(settings: Settings) -> Record:
    window = duration(settings.deploy_watch)
    seen = f"last_over_time(tokometer_upstream_info[{window}])"
    return Record(
        CHANGED,
        promql(f"""
            count by (job, upstream) (
              group by (job, upstream, engine, version) ({seen})
            ) > 1
        """),
        f"engines and versions that an upstream had within {window}, where there was more than one",
    )


def _canary(settings: Settings, when: str) -> Iterator[Record]:
    """Medians: of the last minutes, and of the time that the baseline covers."""
    step = duration(settings.canary_step)
    for name in ("time_to_first_token_seconds", "decode_tokens_per_second"):
        value = f"avg by ({MODEL}) (tokometer_canary_{name})"
        if when == "now":
            window, place = duration(settings.canary_window), ""
        else:
            window = duration(settings.baseline.length)
            place = f" offset {duration(settings.baseline.ago)}"
        yield Record(
            f"model:tokometer_canary_{name}:median_{when}",
            f"quantile_over_time(0.5, ({value})[{window}:{step}]{place})",
            f"median over {window}",
        )


def _uncounted(settings: Settings) -> Record:
    metric, window = "tokometer_token_counts_total", duration(settings.uncounted_window)
    guessed = f'{metric}{{source=~"estimate|none"}}'
    return Record(
        "model:tokometer_token_counts:share_uncounted",
        promql(f"""
            {total(MODEL, f"increase({guessed}[{window}])")}
              / ({total(MODEL, f"increase({metric}[{window}])")} >= {settings.uncounted_streams})
        """),
        "share of answers whose number of tokens nobody told; their speed is estimated or missing",
    )


def _overhead(settings: Settings) -> Iterator[Record]:
    window = duration(settings.overhead_window)
    rate = total("job, instance, le", f"rate(tokometer_overhead_seconds_bucket[{window}])")
    yield Record(
        "instance:tokometer_overhead_seconds:p99",
        f"histogram_quantile(0.99, {rate}) >= 0",
        f"what the proxy itself adds to a chunk, quantile 0.99, the last {window}",
    )


def _traffic(settings: Settings) -> Iterator[Record]:
    yield Record(
        "model:tokometer_traffic:increase",
        total(MODEL, f"increase(tokometer_requests_total[{duration(settings.traffic_window)}])"),
        f"exchanges ended, the last {duration(settings.traffic_window)}",
    )
