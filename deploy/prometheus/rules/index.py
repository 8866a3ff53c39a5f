"""The like-for-like index: how much slower the same work is than it was.

Streams of the same context and concurrency class (a cell) are compared, by means of logarithms::

    d = mean_now - mean_baseline                       of a cell; 0.22 is 25 % slower
    w = n_now n_baseline / (n_now + n_baseline)        its weight
    index = exp(sum w d / sum w)
    standard error = sqrt(sum w^2 s^2 (1 / n_now + 1 / n_baseline)) / sum w
    raw change = mix effect + like-for-like            in logarithms

The weights are those of least variance where cells spread alike, as in a two-way analysis without
interaction. The index with the baseline's own shares as weights is that of Laspeyres.
"""

from collections.abc import Iterator

from deploy.prometheus.rules import crowd, sizes
from deploy.prometheus.rules.rule import CELL, MODEL, Group, Record, promql, total
from deploy.prometheus.rules.settings import Settings, duration
from deploy.prometheus.rules.window import Window, windows

PHASES = {"tpot": "time per output token", "ttft": "time to first token"}


def groups(settings: Settings) -> Iterator[Group]:
    """For each phase the baseline, which moves slowly, and what is compared with it."""
    for phase, what in PHASES.items():
        baseline = [
            *_tiles(settings, phase, what),
            *sizes.tiles(settings, phase),
            *_baseline(settings, phase, what),
            *sizes.baseline(settings, phase),
        ]
        if phase == crowd.PHASE:
            baseline += [*crowd.tiles(settings), *crowd.baseline(settings)]
        yield Group(f"tokometer-{phase}-baseline", settings.slow, baseline)
        short, long = windows(settings)
        index = [*_window(settings, phase, what, short), *_change(phase, what)]
        yield Group(f"tokometer-{phase}-index", settings.fast, index)
        again = list(_window(settings, phase, what, long))
        yield Group(f"tokometer-{phase}-index-long", settings.fast, again)


def _window(settings: Settings, phase: str, what: str, window: Window) -> Iterator[Record]:
    """The index over one window, and what its certainty and coverage are."""
    yield from _now(phase, what, window)
    yield from _cells(phase, what, window)
    yield from _index(settings, phase, what, window)
    yield from _matched(phase, window)


def _increase(phase: str, counter: str, window: int) -> str:
    metric = f"tokometer_cell_{phase}_{counter}_total"
    return total(CELL, f"increase({metric}[{duration(window)}])")


def _tiles(settings: Settings, phase: str, what: str) -> Iterator[Record]:
    """Pieces that the baseline is made of, for cells that had streams.

    Seven days of raw counters take a hundred times as long to read.
    """
    for counter in ("streams", "log_sum", "log_sumsq"):
        yield Record(
            f"cell:tokometer_{phase}_{counter}:tile",
            f"{_increase(phase, counter, settings.baseline.tile)} > 0",
            f"{counter} of the {what}, the last {duration(settings.baseline.tile)}",
        )


def _baseline(settings: Settings, phase: str, what: str) -> Iterator[Record]:
    of, cell = settings.baseline.of, f"cell:tokometer_{phase}"
    yield Record(
        f"{cell}_streams:baseline",
        f"{of(f'{cell}_streams:tile')} > {settings.baseline_cell_streams}",
        "streams of the baseline; cells with few are left out",
    )
    yield Record(
        f"{cell}_log_mean:baseline",
        f"{of(f'{cell}_log_sum:tile')} / {cell}_streams:baseline",
        f"mean of ln {what} in microseconds, baseline",
    )
    yield Record(
        f"{cell}_log_variance:baseline",
        promql(f"""
            {of(f"{cell}_log_sumsq:tile")} / {cell}_streams:baseline
              - {cell}_log_mean:baseline ^ 2
        """),
        f"variance of ln {what}, baseline",
    )


def _now(phase: str, what: str, window: Window) -> Iterator[Record]:
    cell, length = f"cell:tokometer_{phase}", window.length
    yield Record(
        f"{cell}_streams:{window.name}",
        f"{_increase(phase, 'streams', length)} > 0",
        f"streams of the last {duration(length)}",
    )
    yield Record(
        f"{cell}_log_mean:{window.name}",
        f"{_increase(phase, 'log_sum', length)} / {cell}_streams:{window.name}",
        f"mean of ln {what} in microseconds, the last {duration(length)}",
    )


def _cells(phase: str, what: str, window: Window) -> Iterator[Record]:
    cell = f"cell:tokometer_{phase}"
    change = f"({cell}_log_mean:{window.name} - {cell}_log_mean:baseline)"
    parts = [sizes.part(phase, window)]
    if phase == crowd.PHASE:
        parts.append(crowd.part(window))
    yield Record(
        f"{cell}_log_ratio:like_for_like{window.suffix}",
        "\n  ".join([change, *(f"- ({part} or 0 * {change})" for part in parts)]),
        f"ln of the {what} now over that of the baseline, for the same sizes",
    )
    now, base = f"{cell}_streams:{window.name}", f"{cell}_streams:baseline"
    yield Record(
        f"{cell}_weight:matched{window.suffix}",
        f"{now} * {base} / ({now} + {base} > 0)",
        "weight of the cell in the index",
    )


def _index(settings: Settings, phase: str, what: str, window: Window) -> Iterator[Record]:
    cell, model, suffix = f"cell:tokometer_{phase}", f"model:tokometer_{phase}", window.suffix
    ratio, weight = f"{cell}_log_ratio:like_for_like{suffix}", f"{cell}_weight:matched{suffix}"
    variance = _variance_of_difference(settings, phase, window)
    yield Record(
        f"{model}_log_ratio:like_for_like{suffix}",
        promql(f"""
            {total(MODEL, f"{weight} * {ratio}")}
              / ({total(MODEL, weight)} > 0)
        """),
        "ln of the index",
    )
    yield Record(
        f"{model}_index:like_for_like{suffix}",
        f"exp({model}_log_ratio:like_for_like{suffix})",
        f"1.25: the {what} is 25 % more than in the baseline, for the same work",
    )
    yield Record(
        f"{model}_log_ratio:standard_error{suffix}",
        promql(f"""
            sqrt({total(MODEL, f"{weight} ^ 2 * {variance}")})
              / ({total(MODEL, weight)} > 0)
        """),
        "standard error of the ln of the index",
    )


def _variance_of_difference(settings: Settings, phase: str, window: Window) -> str:
    """Of the two means of a cell, its streams' spread taken from now and baseline together."""
    cell = f"cell:tokometer_{phase}"
    now, base = f"{cell}_streams:{window.name}", f"{cell}_streams:baseline"
    squares = _increase(phase, "log_sumsq", window.length)
    pooled = (
        f"({squares} - {now} * {cell}_log_mean:{window.name} ^ 2"
        f" + {base} * {sizes.variance(phase)}) / ({now} + {base} > 0)"
    )
    least = round(settings.least_log_deviation**2, 12)
    return f"(clamp_min({pooled}, {least}) * (1 / {now} + 1 / {base}))"


def _matched(phase: str, window: Window) -> Iterator[Record]:
    """How much of now is comparable."""
    cell, model = f"cell:tokometer_{phase}", f"model:tokometer_{phase}"
    now, base = f"{cell}_streams:{window.name}", f"{cell}_streams:baseline"
    yield Record(
        f"{model}_streams:matched{window.suffix}",
        promql(f"""
            {total(MODEL, f"{now} and {base}")}
              or {total(MODEL, now)} * 0
        """),
        "streams of now in cells that have a baseline",
    )
    yield Record(
        f"{model}_coverage:ratio{window.suffix}",
        f"{model}_streams:matched{window.suffix} / ({total(MODEL, now)} > 0)",
        "their share of the streams of now",
    )


def _change(phase: str, what: str) -> Iterator[Record]:
    """For boards: the baseline's weights, and what the comparison takes out of the raw change."""
    cell, model = f"cell:tokometer_{phase}", f"model:tokometer_{phase}"
    now, base, ratio = (
        f"{cell}_{name}" for name in ("streams:now", "streams:baseline", "log_ratio:like_for_like")
    )
    yield Record(
        f"{model}_index:laspeyres",
        promql(f"""
            exp(
              {total(MODEL, f"{base} * {ratio}")}
                / ({total(MODEL, f"{base} and {ratio}")} > 0)
            )
        """),
        "the index with the baseline's shares as weights",
    )
    yield Record(
        f"{model}_log_ratio:raw",
        promql(f"""
            {total(MODEL, f"{now} * {cell}_log_mean:now")} / ({total(MODEL, now)} > 0)
              - {total(MODEL, f"{base} * {cell}_log_mean:baseline")} / ({total(MODEL, base)} > 0)
        """),
        f"ln of the {what} now over that of the baseline, whatever the work",
    )
    yield Record(
        f"{model}_log_ratio:mix",
        f"{model}_log_ratio:raw - {model}_log_ratio:like_for_like",
        "the part of it that other prompts and other load account for",
    )
