"""How many streams can it take, and what does each of them get then?"""

from grafana.board import Board, Panel, Row
from grafana.panels import lines, number
from grafana.parts import COUNT, PER_SECOND, SECONDS, SHARE, TOKENS_PER_SECOND, Query
from grafana.queries import INTERVAL, RANGE, RECORDED, by_class, geometric_mean, of, rate, ratio
from grafana.scales import LOAD, READING_SPEED
from grafana.tables import bars

STREAMS_FROM = "Streams at once, from"
TOKENS_FROM = "Thousand prompt tokens, from"
KNEE = f"model:tokometer_streams:knee{{{RECORDED}}}"
IN_FLIGHT = f"model:tokometer_streams:sum{{{RECORDED}}}"
NO_KNEE = "No knee yet"
CLASSES = (1, 2, 4, 8, 16, 32, 64)  # the first concurrency of each class of cells


def _throughput_by_load() -> str:
    """The mean throughput of the moments at which so many streams were in flight."""
    throughput = rate("output_tokens_total", "model")
    load = f"sum by (model) (avg_over_time({of('streams')}[{INTERVAL}]))"
    return "\nor ".join(
        f"label_replace(avg_over_time(({throughput} and ({load} >= {first} < {end}))"
        f'[{RANGE}:{INTERVAL}]), "from", "{first}", "", "")'
        for first, end in zip(CLASSES, (*CLASSES[1:], "+Inf"), strict=True)
    )


def _curve(cell: str, label: str, formula: str) -> str:
    mean = geometric_mean(cell, f"model, {label}", where=f'{label}!="unknown"')
    return by_class(formula.format(mean), label)


_LOAD: list[Panel] = [
    number(
        "Load over the knee",
        "Streams in flight over the number at which 90 % of the best throughput was reached. Over 1"
        " more users make it slower for all and bring little. The model with the most of those"
        " chosen.",
        SHARE,
        f"max({IN_FLIGHT} / ({KNEE} > 0))",
        height=8,
        decimals=0,
        good_or_bad=LOAD,
        empty=NO_KNEE,
    ),
    lines(
        "Streams in flight and knee",
        "Streams in flight, and where 90 % of the best throughput was reached (dashed).",
        COUNT,
        Query(f"sum by (model) ({of('streams')})", "{{model}}"),
        Query(KNEE, "{{model}} knee", dashed=True),
        span=10,
    ),
    lines(
        "Waiting and decoding",
        "Streams in flight that wait for their first token, and those that are being answered."
        " Waiting that grows is a queue.",
        COUNT,
        Query(f"sum by (phase) ({of('streams')})", "{{phase}}"),
        span=10,
        stacked=True,
    ),
]

_BY_CONCURRENCY: list[Panel] = [
    bars(
        "Throughput by streams at once",
        "Output tokens per second of all users together, while so many streams were in flight (1, 2"
        " to 3, 4 to 7 ...). Where bars stop growing is the knee.",
        TOKENS_PER_SECOND,
        STREAMS_FROM,
        _throughput_by_load(),
        span=8,
    ),
    bars(
        "Decode rate per user by streams at once",
        "Geometric mean of the streams with this mean concurrency, over the time shown. The red"
        " line is reading speed.",
        TOKENS_PER_SECOND,
        STREAMS_FROM,
        _curve("tpot", "concurrency", "1 / ({})"),
        span=8,
        marks=READING_SPEED,
    ),
    bars(
        "TTFT by streams at once",
        "Geometric mean of the streams that met this concurrency when they came, over the time"
        " shown.",
        SECONDS,
        STREAMS_FROM,
        _curve("ttft", "concurrency", "{}"),
        span=8,
    ),
]

_BY_CONTEXT: list[Panel] = [
    bars(
        "Decode rate per user by context",
        "Geometric mean of the streams with so many prompt tokens (under 1k, 1k to 4k, 4k to 16k"
        " ...), over the time shown.",
        TOKENS_PER_SECOND,
        TOKENS_FROM,
        _curve("tpot", "context", "1 / ({})"),
        marks=READING_SPEED,
    ),
    bars(
        "TTFT by context",
        "Geometric mean of the streams with so many uncached prompt tokens, over the time shown.",
        SECONDS,
        TOKENS_FROM,
        _curve("ttft", "context", "{}"),
    ),
]

_SERVED: list[Panel] = [
    lines(
        "Throughput",
        "Output tokens per second over all users.",
        TOKENS_PER_SECOND,
        Query(rate("output_tokens_total", "model"), "{{model}}"),
        stacked=True,
    ),
    lines(
        "Objectives met",
        "Share of completed exchanges that met each objective, and all of them.",
        SHARE,
        Query(
            ratio(
                rate("objectives_total", "objective", 'met="true"'),
                rate("objectives_total", "objective"),
            ),
            "{{objective}}",
        ),
        most=1,
        empty="No objectives set",
    ),
    lines(
        "Goodput",
        "Completed exchanges per second that met all objectives; below it those that did not.",
        PER_SECOND,
        Query(rate("objectives_total", "met", 'objective="all"'), "met: {{met}}"),
        stacked=True,
        empty="No objectives set",
    ),
]

CAPACITY = Board(
    "capacity",
    "Capacity",
    "How many streams the servers take, and what each gets.",
    [
        Row("Load", _LOAD),
        Row("Against concurrency", _BY_CONCURRENCY),
        Row("Against context", _BY_CONTEXT),
        Row("What is served", _SERVED),
    ],
)
