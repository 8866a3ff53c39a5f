"""Alerts on what happens now: streams, load, objectives, the proxy itself."""

from examples import Below, Example
from timelines import INSTANCE, SCOPE, Series, counts, gauge, histogram

_DECODE = "decode_tokens_per_second"


def _reading(slow: float, rest: float) -> list[Series]:
    return histogram(_DECODE, {"5.0": 0, "100.0": 2}, {"5.0": slow, "100.0": rest})


def _stalled(stalled: float, others: float) -> list[Series]:
    return [
        gauge("streams_stalled", 0, stalled),
        gauge("streams", 10, stalled, phase="waiting"),
        gauge("streams", 5, others, phase="decoding"),
    ]


def _stalls(stalls: float, streams: float, before: float = 4) -> list[Series]:
    started = counts("time_to_first_token_seconds_count", before, streams)
    return [counts("stalls_total", 0, stalls), started]


def _ended(**failed: float) -> list[Series]:
    """Exchanges a minute by outcome, beside 20 that complete; `code_outcome` names a code."""
    labels = {"api": "chat", "stream": "true"}
    series = [counts("requests_total", 20, 20, **labels, outcome="completed", code="200")]
    for name, number in failed.items():
        outcome, _, code = name.rpartition("_")
        series.append(counts("requests_total", 0, number, **labels, outcome=outcome, code=code))
    return series


def _load(streams: float, tokens: float, before: float = 10) -> list[Series]:
    return [
        gauge("streams", before, streams, phase="decoding"),
        counts("output_tokens_total", 6000, tokens, api="chat"),
    ]


def _objectives(missed: float, number: float = 2) -> list[Series]:
    labels = {"objective": "all"}
    return [
        counts("objectives_total", number, number * (1 - missed), **labels, met="true"),
        counts("objectives_total", 0, number * missed, **labels, met="false"),
    ]


def _burn(
    severity: str, long: str, short: str, factor: float, minutes: tuple[int, int], said: str
) -> Example:
    """Missed a little more, and a little less, than that many times what is allowed."""
    during, after = minutes
    return Example(
        "GoodputBurn",
        {**SCOPE, "window": long},
        severity,
        _objectives(factor * 0.05 * 1.1),
        (0, during - 4),
        f"org/m on up: objectives are missed {said} times as fast as 95% allows, "
        f"over {long} and {short}",
        {
            "almost": Below(_objectives(factor * 0.05 * 0.98), {"goodput_target": 0.96}),
            "few": Below(_objectives(factor * 0.05 * 1.2, 15 / during), {"goodput_exchanges": 2}),
        },
        4,
        during,
        after,
        step=4,
    )


def _traffic(requests: float, streams: float = 0, before: float = 2) -> list[Series]:
    labels = {"api": "chat", "stream": "true", "outcome": "completed", "code": "200"}
    return [
        counts("requests_total", before, requests, **labels),
        gauge("streams", 1, streams, phase="decoding"),
    ]


def _up(now: float | None) -> list[Series]:
    return [Series("up", 1, now, INSTANCE)]


def _overhead(bound: str) -> list[Series]:
    slower = histogram(
        "overhead_seconds",
        {"0.0025": 60, "0.004": 0, "0.0063": 0, "0.01": 0},
        {"0.0025": 50, bound: 10},
    )
    return slower


def _counted(usage: float, estimate: float, none: float = 0, before: float = 1) -> list[Series]:
    return [
        counts("token_counts_total", before, usage, source="usage"),
        counts("token_counts_total", 0, estimate, source="estimate"),
        counts("token_counts_total", 0, none, source="none"),
    ]


EXAMPLES = [
    Example(
        "SlowerThanReading",
        SCOPE,
        "warning",
        _reading(0.2, 1.8),
        (9, 30),
        "org/m on up: 10% of the streams are slower than reading (5 tokens/s)",
        {
            "4.9 %": Below(_reading(0.098, 1.902), {"reading_share": 0.048}),
            "few": Below(_reading(0.2, 1.1), {"reading_streams": 19}),
        },
    ),
    Example(
        "StreamsStalledNow",
        SCOPE,
        "critical",
        _stalled(3, 6),
        (1, 2),
        "org/m on up: 3 streams in flight have stood still since their last output",
        {"9 % of them": Below(_stalled(1, 10), {"stalled_share": 0.09})},
    ),
    Example(
        "StallShare",
        SCOPE,
        "warning",
        _stalls(0.2, 4),
        (9, 30),
        "org/m on up: stalls in 5% of the streams, if none stalls twice",
        {
            "1.9 %": Below(_stalls(0.076, 4), {"stall_share": 0.018}),
            "few": Below(_stalls(0.2, 3.25, before=3.25), {"stall_streams": 47}),
        },
    ),
    Example(
        "ErrorRatio",
        SCOPE,
        "critical",
        _ended(truncated_200=5),
        (4, 12),
        "org/m on up: at least 13.93% of the exchanges fail",
        {
            "7 % of a hundred": Below(_ended(truncated_200=1.5), {"error_share": 0.035}),
            "7 % that are surely 4": Below(_ended(truncated_200=1.5), {"wilson_z": 0.5}),
        },
        variants={
            "5xx": _ended(rejected_500=3, rejected_502=2),
            "unreachable and cut": _ended(unreachable_502=2, aborted_=1, timeout_504=2),
            "all": [
                *(one.quiet() for one in _ended()),
                *_ended(unreachable_502=20)[1:],
            ],
        },
    ),
    Example(
        "SaturationKnee",
        SCOPE,
        "warning",
        _load(16, 6000),
        (14, 20),
        "org/m on up: 16 streams in flight, more than 1.5 times what gave 90% of the best "
        "throughput",
        {
            "1.4 times": Below(_load(14, 6000), {"knee_factor": 1.35}),
            "with more throughput": Below(_load(16, 7000), {"knee_share": 0.8}),
            "few": Below(_load(3.5, 6000, before=2), {"knee_streams": 3}),
        },
    ),
    _burn("critical", "1h", "5m", 14.4, (80, 20), "15.8"),
    _burn("critical", "6h", "30m", 6, (120, 60), "6.4"),
    _burn("warning", "1d", "2h", 3, (240, 160), "3.2"),
    _burn("warning", "3d", "6h", 1, (480, 420), "1.1"),
    Example(
        "CanaryFailing",
        SCOPE,
        "critical",
        [gauge("canary_success", 1, 0)],
        (4, 5),
        "org/m on up: the canary fails (success 0)",
        {
            "for a moment": Below(
                [gauge("canary_success", 1, 0)], {"canary_failing_hold": 60}, during=4
            )
        },
        quiet=[gauge("canary_success", 1, None)],
    ),
    Example(
        "TrafficStopped",
        SCOPE,
        "warning",
        _traffic(0),
        (15, 25),
        "org/m on up: no traffic; it was 30 exchanges in 15m an hour ago",
        {
            "little traffic before": Below(_traffic(0, before=1.2), {"traffic_exchanges": 17}),
            "a little traffic now": Below(_traffic(0.1), None),
            "streams that still run": Below(_traffic(0, streams=1), None),
        },
        before=120,
        variants={"gone": [counts("requests_total", 2, 0, outcome="completed")]},
        quiet=_traffic(0, before=0),
    ),
    Example(
        "ProxyDown",
        INSTANCE,
        "critical",
        _up(0),
        (1, 2),
        "tokometer on a:9464 cannot be scraped (up 0)",
        {"for a moment": Below(_up(0), {"down_hold": 60}, during=2)},
        quiet=_up(1),
    ),
    Example(
        "ProxyAbsent",
        {},
        "critical",
        _up(None),
        (9, 10),
        "No tokometer is scraped at all (1 such job is missing)",
        {"for a moment": Below(_up(None), {"absent_hold": 120}, during=9)},
        quiet=_up(1),
    ),
    Example(
        "ProxySlow",
        INSTANCE,
        "warning",
        _overhead("0.01"),
        (14, 30),
        "tokometer on a:9464 holds chunks for 9.778ms (p99)",
        {"3.9 ms": Below(_overhead("0.004"), {"overhead_seconds": 0.0035})},
    ),
    Example(
        "TokensUncounted",
        SCOPE,
        "info",
        _counted(1, 0.5),
        (14, 80),
        "org/m on up: 33.33% of the answers come without a count of tokens",
        {
            "19 %": Below(_counted(0.81, 0.1, 0.09), {"uncounted_share": 0.18}),
            "few": Below(_counted(0, 0.3, before=0.3), {"uncounted_streams": 15}),
        },
        during=90,
        after=120,
        variants={"none at all": _counted(0, 0, 1)},
    ),
]
