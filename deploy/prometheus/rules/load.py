"""Traffic, throughput, errors, goodput, and how many streams a model can take."""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import MODEL, Group, Record, promql, total
from deploy.prometheus.rules.settings import HOUR, Settings, duration

# A 4xx is the client's own doing, also where the proxy gave it (a request that breaks off), and a
# 429 is a limit that holds. The boards say the same (grafana/queries.py).
_FAILED = 'outcome!~"completed|client_closed", code!~"4.."'

IN_FLIGHT = "model:tokometer_streams:sum"
TOKENS = "model:tokometer_output_tokens:rate"
KNEE = "model:tokometer_streams:knee"


def groups(settings: Settings) -> Iterator[Group]:
    """What moves fast, and what is made of hours and days."""
    now = [*_rates(settings), *_errors(settings)]
    windows = {window for burn in settings.burns for window in (burn.long, burn.short)}
    short = {window for window in windows if window <= HOUR}
    now += _burns(settings, short)
    yield Group("tokometer-load", settings.fast, now)
    slow = [_knee(settings), *_burns(settings, windows - short)]
    yield Group("tokometer-capacity", settings.slow, slow)


def _rates(settings: Settings) -> Iterator[Record]:
    window = duration(settings.rate_window)
    for metric, what in (
        ("requests", "exchanges"),
        ("output_tokens", "output tokens"),
        ("prompt_tokens", "prompt tokens"),
    ):
        yield Record(
            f"model:tokometer_{metric}:rate",
            total(MODEL, f"rate(tokometer_{metric}_total[{window}])"),
            f"{what} per second, the last {window}",
        )
    yield Record(IN_FLIGHT, total(MODEL, "tokometer_streams"), "streams in flight")
    yield Record(
        "model:tokometer_goodput:rate",
        total(MODEL, f'rate(tokometer_objectives_total{{objective="all", met="true"}}[{window}])'),
        f"exchanges per second that met all objectives, the last {window}",
    )


def _errors(settings: Settings) -> Iterator[Record]:
    window = duration(settings.error_window)
    metric = "tokometer_requests_total"
    failed = f"increase({metric}{{{_FAILED}}}[{window}])"
    yield Record(
        "model:tokometer_requests:increase",
        total(MODEL, f"increase({metric}[{window}])"),
        f"exchanges ended, the last {window}",
    )
    yield Record(
        "model:tokometer_errors:ratio",
        # Extrapolation must not make it more than all: that has no standard deviation.
        promql(f"""
            clamp_max(
              {total(MODEL, failed)}
                / (model:tokometer_requests:increase > 0),
              1
            )
        """),
        "share of exchanges that failed: 5xx, errors in mid-stream, cut, unreachable, too late",
    )
    yield Record(
        "model:tokometer_errors:wilson_lower",
        _wilson("model:tokometer_errors:ratio", "model:tokometer_requests:increase", settings),
        "lower bound of that share: Wilson's score interval, so that one failure of two is no 50 %",
    )


def _wilson(share: str, number: str, settings: Settings) -> str:
    """Wilson (1927), doi 10.1080/01621459.1927.10502953."""
    z2 = round(settings.wilson_z**2, 6)
    spread = f"{share} * (1 - {share}) / {number} + {z2 / 4} / {number} ^ 2"
    return promql(f"""
        (
          {share} + {z2 / 2} / {number}
            - {settings.wilson_z} * sqrt({spread})
        ) / (1 + {z2} / {number})
    """)


def _burns(settings: Settings, windows: set[int]) -> Iterator[Record]:
    """How many times as fast as allowed the objectives are missed, for each window."""
    for window in sorted(windows):
        yield from _burn(settings, duration(window))


def _burn(settings: Settings, window: str) -> Iterator[Record]:
    metric, labels = "tokometer_objectives_total", {"window": window}
    every = f'model:tokometer_objectives:increase{{window="{window}"}}'
    missed = f'{metric}{{objective="all", met="false"}}'
    yield Record(
        "model:tokometer_objectives:increase",
        total(MODEL, f'increase({metric}{{objective="all"}}[{window}])'),
        "exchanges with objectives",
        labels,
    )
    yield Record(
        "model:tokometer_goodput:burn",
        promql(f"""
            {total(MODEL, f"increase({missed}[{window}])")}
              / ignoring (window) ({every} > 0)
              / {round(1 - settings.goodput_target, 9)}
        """),
        "share of exchanges that missed an objective, over the share that may",
        labels,
    )


def _knee(settings: Settings) -> Record:
    """The load from which on more streams brought no more tokens.

    A low quantile and not the least, so that one odd moment does not decide. While load still
    grows so does the best throughput, and with it the knee.
    """
    window, step = duration(settings.knee_window), duration(settings.knee_step)
    best = f"max_over_time({TOKENS}[{window}:{step}] @ end())"
    return Record(
        KNEE,
        promql(f"""
            quantile_over_time(0.1,
              (
                {IN_FLIGHT}
                  and {TOKENS} > 0
                  and {TOKENS} > {settings.knee_share} * {best}
              )[{window}:{step}]
            )
        """),
        f"streams in flight where {settings.knee_share:.0%} of the best throughput was reached",
    )
