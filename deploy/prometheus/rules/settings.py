"""Thresholds, windows and the baseline of all rules and alerts, in one place."""

from dataclasses import dataclass, replace
from datetime import datetime

SECOND = 1
MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))


def duration(seconds: int) -> str:
    """`seconds` (over 0) as PromQL writes it, in one unit: 7d, 20h, 90s."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"


@dataclass(frozen=True)
class Baseline:
    """What now is compared with.

    Args:
        length: seconds that it covers.
        ago: seconds from its end until now.
        tile: seconds; it is made of so long pieces. At least four scrapes; it must divide the
            length.
        end: where it ends for good; without it the baseline rolls on.
    """

    length: int
    ago: int
    tile: int
    end: datetime | None = None

    def of(self, series: str) -> str:
        """The sum of the tiles of `series`, as PromQL."""
        place = f"@ {self.end.timestamp():.0f}" if self.end else f"offset {duration(self.ago)}"
        return f"sum_over_time({series}[{duration(self.length)}:{duration(self.tile)}] {place})"


@dataclass(frozen=True)
class Burn:
    """Objectives are missed `factor` times as fast as would just use up the budget."""

    severity: str
    factor: float
    long: int
    short: int
    hold: int


@dataclass(frozen=True)
class Settings:
    """All values; windows, ages and holds are seconds, shares are of 1."""

    # Where links of alerts lead: your copy of docs/runbooks.md, your Grafana.
    runbooks: str = "https://tokometer.example/docs/runbooks.md"
    grafana: str = "http://localhost:3000"
    # The uid of Prometheus as Grafana's own alerts know it.
    datasource: str = "prometheus"
    # The jobs that scrape tokometer, a regular expression: for `up`, which has no better name.
    job: str = "tokometer"

    # Groups of rules are evaluated so often. A series is looked up for five minutes after its
    # last sample, so that the slow ones must not be slower than that.
    fast: int = MINUTE
    slow: int = 4 * MINUTE

    # What now is, where there is no other window.
    now: int = 15 * MINUTE

    # Like for like. The long window must not reach into the baseline.
    index_window: int = 20 * MINUTE
    index_long_window: int = HOUR
    baseline: Baseline = Baseline(length=7 * DAY, ago=DAY, tile=HOUR)
    baseline_cell_streams: int = 30
    # Logarithms in a cell spread at least so much: few equal streams are no certainty.
    least_log_deviation: float = 0.05
    # Sizes in the cells must differ so much for a slope: the sum of the squared differences of
    # their logarithms.
    least_size_squares: float = 1
    regression_index: float = 1.15
    regression_errors: float = 4
    # Streams of the same minutes share their luck, which the spread inside of cells does not show:
    # a standard error that is added to it.
    regression_shared_error: float = 0.03
    regression_coverage: float = 0.5
    regression_streams: int = 5
    regression_hold: int = 2 * MINUTE
    deploy_index: float = 1.08
    # That is within the luck that is shared, which must pass in the meantime.
    deploy_shared_error: float = 0
    deploy_hold: int = 7 * MINUTE
    deploy_watch: int = DAY
    thin_coverage: float = 0.5
    thin_hold: int = 6 * HOUR

    # The same hour of other days; not corrected for mix.
    quantile_window: int = HOUR
    reference_ages: tuple[int, ...] = (DAY, 2 * DAY, 7 * DAY)
    ttft_factor: float = 1.5
    ttft_seconds: float = 0.2
    ttft_streams: int = 50
    decode_factor: float = 0.75
    decode_streams: int = 20
    reference_hold: int = 10 * MINUTE

    # What users feel.
    speeds: tuple[int, ...] = (5, 10, 20)  # tokens per second; bounds of the histogram
    reading_speed: int = 5
    reading_share: float = 0.05
    reading_streams: int = 20
    reading_hold: int = 10 * MINUTE
    stalled_share: float = 0.1  # of the streams in flight
    stalled_hold: int = 2 * MINUTE
    stall_share: float = 0.02
    stall_streams: int = 50
    stall_hold: int = 10 * MINUTE
    error_window: int = 5 * MINUTE
    error_share: float = 0.05
    error_hold: int = 5 * MINUTE
    wilson_z: float = 1.96

    # Load.
    rate_window: int = 5 * MINUTE
    curve_window: int = DAY
    curve_streams: int = 30
    knee_window: int = 7 * DAY
    knee_step: int = 5 * MINUTE
    knee_share: float = 0.9
    knee_factor: float = 1.5
    knee_streams: int = 4
    # Longer than the window of a rate, a step and a slow evaluation: load may still be growing.
    knee_hold: int = 15 * MINUTE
    traffic_window: int = 15 * MINUTE
    traffic_ago: int = HOUR
    traffic_exchanges: int = 20
    traffic_hold: int = 5 * MINUTE

    # Goodput: this share of exchanges is to meet all objectives. Factors and windows are those
    # of the Site Reliability Workbook, chapter 5 ("Alerting on SLOs").
    goodput_target: float = 0.95
    goodput_exchanges: int = 20
    burns: tuple[Burn, ...] = (
        Burn("critical", 14.4, HOUR, 5 * MINUTE, 2 * MINUTE),
        Burn("critical", 6, 6 * HOUR, 30 * MINUTE, 5 * MINUTE),
        Burn("warning", 3, DAY, 2 * HOUR, 15 * MINUTE),
        Burn("warning", 1, 3 * DAY, 6 * HOUR, 30 * MINUTE),
    )

    # The canary, against its own medians.
    canary_window: int = 30 * MINUTE
    canary_step: int = 5 * MINUTE
    canary_ttft_factor: float = 1.5
    canary_decode_factor: float = 0.8
    canary_slow_hold: int = 10 * MINUTE
    canary_failing_hold: int = 5 * MINUTE

    # The proxy itself.
    down_hold: int = 2 * MINUTE
    absent_hold: int = 5 * MINUTE
    overhead_window: int = 15 * MINUTE
    overhead_seconds: float = 0.005
    overhead_hold: int = 15 * MINUTE
    uncounted_window: int = HOUR
    uncounted_share: float = 0.2
    uncounted_streams: int = 20
    uncounted_hold: int = 15 * MINUTE


_WEEK = Settings()
PRESETS = {
    "week": _WEEK,
    "short": replace(_WEEK, baseline=Baseline(20 * HOUR, 2 * HOUR, 15 * MINUTE)),
    # For trying the alerts out against a live proxy that is scraped every five seconds or faster.
    "live": replace(
        _WEEK,
        fast=15,
        slow=15,
        now=MINUTE,
        index_window=MINUTE,
        index_long_window=2 * MINUTE,
        baseline=Baseline(10 * MINUTE, 2 * MINUTE, MINUTE),
        regression_hold=30,
        deploy_hold=30,
        deploy_watch=10 * MINUTE,
        curve_window=10 * MINUTE,
        rate_window=MINUTE,
    ),
}
