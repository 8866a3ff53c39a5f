"""Parts of PromQL that panels share."""

from collections.abc import Sequence

from prometheus_client.utils import floatToGoString

# What the variables of a board choose; All is any value, a label that is not there included.
OWN = 'job=~"$job",instance=~"$instance"'
UPSTREAM = f'{OWN},upstream=~"$upstream"'
MODEL = f'{UPSTREAM},model=~"$model"'
# Recording rules have no instance: they are of all proxies together.
RECORDED = 'job=~"$job",upstream=~"$upstream",model=~"$model"'
INTERVAL = "$__rate_interval"
RANGE = "$__range"

FAULTLESS = "completed|client_closed"
READING = "5.0"  # tokens per second, as the bucket's bound is written


def of(metric: str, where: str = "", labels: str = MODEL) -> str:
    """The series of `tokometer_{metric}` that the board shows, and of them those with `where`."""
    chosen = f"{labels},{where}" if where else labels
    return f"tokometer_{metric}{{{chosen}}}"


def rate(
    metric: str, by: str = "", where: str = "", labels: str = MODEL, window: str = INTERVAL
) -> str:
    """Events per second, summed; `by` names labels, with commas between them."""
    kept = f" by ({by})" if by else ""
    return f"sum{kept} (rate({of(metric, where, labels)}[{window}]))"


def quantile(
    q: float, metric: str, by: str = "", labels: str = MODEL, window: str = INTERVAL
) -> str:
    """The `q` quantile of a histogram: of the summed buckets, never of quantiles.

    Of no observations it is NaN, which is no value: the comparison leaves it out.
    """
    kept = f"le, {by}" if by else "le"
    return f"(histogram_quantile({q:g}, {rate(f'{metric}_bucket', kept, '', labels, window)}) >= 0)"


def buckets(metric: str, bounds: Sequence[float], labels: str = MODEL) -> str:
    """Observations up to each of `bounds` since the point before, for a heatmap.

    Some of the histogram's bounds: all 50 would be a fine grid with a few filled cells. The last
    row is what is above them.
    """
    shown = "|".join([*map(floatToGoString, bounds), ".Inf"])
    series = of(f"{metric}_bucket", f'le=~"{shown}"', labels)
    return f"sum by (le) (increase({series}[{INTERVAL}]))"


def ratio(part: str, whole: str) -> str:
    """Nothing where there is no whole: a share of no traffic is not 0."""
    return f"{part} / ({whole} > 0)"


def under(
    metric: str, bound: str, by: str = "", labels: str = MODEL, window: str = INTERVAL
) -> str:
    """The share of a histogram's observations up to `bound`, one of its bounds."""
    return ratio(
        rate(f"{metric}_bucket", by, f'le="{bound}"', labels, window),
        rate(f"{metric}_count", by, "", labels, window),
    )


def geometric_mean(cell: str, by: str, window: str = RANGE, where: str = "") -> str:
    """Seconds, from the cells of `ttft` or `tpot`, whose logarithms are of microseconds."""
    logs = rate(f"cell_{cell}_log_sum_total", by, where, window=window)
    streams = rate(f"cell_{cell}_streams_total", by, where, window=window)
    return f"exp({ratio(logs, streams)}) / 1e6"


def share_errors(by: str = "", window: str = INTERVAL) -> str:
    """The share of exchanges that went wrong, as the alert has it: a 4xx is the client's doing."""
    bad = rate("requests_total", by, f'outcome!~"{FAULTLESS}",code!~"4.."', window=window)
    return ratio(bad, rate("requests_total", by, window=window))


def goodput(by: str = "", window: str = INTERVAL) -> str:
    """The share of exchanges that met all objectives."""
    met = rate("objectives_total", by, 'objective="all",met="true"', window=window)
    return ratio(met, rate("objectives_total", by, 'objective="all"', window=window))


def by_class(expr: str, label: str) -> str:
    """Adds the label `from`: the number with which the class in `label` begins."""
    return f'label_replace({expr}, "from", "$1", "{label}", "([0-9]+).*")'
