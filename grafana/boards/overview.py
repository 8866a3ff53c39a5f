"""How fast is it, for whom, and is it as fast as it was?"""

from grafana import index
from grafana.board import Board, Row
from grafana.panels import heat_map, lines, number
from grafana.parts import (
    COUNT,
    PER_SECOND,
    SECONDS,
    SHARE,
    TOKENS_PER_SECOND,
    Query,
)
from grafana.queries import (
    RANGE,
    READING,
    buckets,
    goodput,
    of,
    quantile,
    rate,
    share_errors,
    under,
)
from grafana.scales import (
    ERRORS,
    GOODPUT,
    LATENCY,
    OUTCOMES,
    READERS,
    READING_SPEED,
    SLOW_SHARE,
    SPEEDS,
    STALLED,
)
from grafana.tables import Column, rows

TTFT = "time_to_first_token_seconds"
DECODE = "decode_tokens_per_second"
DURATION = "request_duration_seconds"
EACH = "upstream, model"

_NOW = Row(
    "Now",
    [
        index.big_number("tpot", span=6, height=5),
        index.big_number("ttft", span=6, height=5),
        number(
            "Throughput",
            "Output tokens per second over all users. The counter moves while streams run.",
            TOKENS_PER_SECOND,
            rate("output_tokens_total"),
            height=5,
        ),
        number(
            "Streams in flight",
            "Streams that wait for their first token or are being answered.",
            COUNT,
            f"sum({of('streams')})",
            height=5,
        ),
        number(
            "Stalled now",
            "Streams in flight that have been silent for longer than the stall threshold. "
            "An engine that looks healthy and serves nothing shows here.",
            COUNT,
            f"sum({of('streams_stalled')})",
            height=5,
            good_or_bad=STALLED,
        ),
        number(
            "Streams",
            "Streams ended per second, whatever their outcome.",
            PER_SECOND,
            rate("requests_total", where='stream="true"'),
            decimals=2,
        ),
        number(
            "Errors",
            "Share of exchanges that failed: 5xx, errors in mid-answer, cut, unreachable, too late."
            " A 4xx is the client's doing, and so is leaving.",
            SHARE,
            share_errors(),
            decimals=1,
            good_or_bad=ERRORS,
        ),
        number(
            "Goodput",
            "Share of completed exchanges that met every objective that is set.",
            SHARE,
            goodput(),
            decimals=1,
            good_or_bad=GOODPUT,
            empty="No objectives set",
        ),
        number(
            "TTFT, p95",
            "Time to first token that 95 % of the streams beat.",
            SECONDS,
            quantile(0.95, TTFT),
        ),
        number(
            "Decode rate per user, median",
            "Output tokens per second that the median stream gets after its first token. "
            "Red below 5, the speed at which people read.",
            TOKENS_PER_SECOND,
            quantile(0.5, DECODE),
            good_or_bad=READERS,
        ),
        number(
            "Slower than reading",
            "Share of streams that decode at less than 5 tokens per second: their readers wait.",
            SHARE,
            under(DECODE, READING),
            decimals=1,
            good_or_bad=SLOW_SHARE,
        ),
    ],
)

_STREAMS = "(" + rate("requests_total", EACH, 'stream="true"', window=RANGE) + " > 0)"
_MODELS = rows(
    "Models",
    "Each model over the time shown. Quantiles are of all its streams; index is the latest value, 1"
    " being as fast as the baseline.",
    [Column("Model", "model"), Column("Upstream", "upstream")],
    [
        Column(
            "Streams",
            _STREAMS,
            PER_SECOND,
            2,
        ),
        Column("In flight", f"sum by ({EACH}) ({of('streams')}) and {_STREAMS}", COUNT),
        Column("Errors", share_errors(EACH, RANGE), SHARE, 1, ERRORS),
        Column("TTFT p50", quantile(0.5, TTFT, EACH, window=RANGE), SECONDS, 2),
        Column("TTFT p95", quantile(0.95, TTFT, EACH, window=RANGE), SECONDS, 2),
        Column(
            "Decode p50", quantile(0.5, DECODE, EACH, window=RANGE), TOKENS_PER_SECOND, 1, READERS
        ),
        Column(
            "Decode p5", quantile(0.05, DECODE, EACH, window=RANGE), TOKENS_PER_SECOND, 1, READERS
        ),
        Column("Under 5 tok/s", under(DECODE, READING, EACH, window=RANGE), SHARE, 1, SLOW_SHARE),
        Column(
            "Throughput",
            rate("output_tokens_total", EACH, window=RANGE) + " > 0",
            TOKENS_PER_SECOND,
            1,
        ),
        index.column("tpot", "Decode index"),
        index.column("ttft", "TTFT index"),
    ],
    height=6,
    sort="Streams",
)

_EXCHANGES = Row(
    "Rate, errors, duration",
    [
        lines(
            "Exchanges by outcome",
            "Exchanges ended per second.",
            PER_SECOND,
            Query(rate("requests_total", "outcome") + " > 0", "{{outcome}}"),
            stacked=True,
            colors=OUTCOMES,
        ),
        lines(
            "Errors by model",
            "Share of exchanges that failed. A 4xx is the client's doing, and so is leaving.",
            SHARE,
            Query(share_errors("model"), "{{model}}"),
        ),
        lines(
            "Duration of exchanges",
            "From the request to the last byte of the answer: 95 % and 50 % (dashed) take less. "
            "Long answers take long; see decode rate for speed.",
            SECONDS,
            Query(quantile(0.95, DURATION, "model"), "{{model}} p95"),
            Query(quantile(0.5, DURATION, "model"), "{{model}} p50", dashed=True),
        ),
    ],
)

_FIRST_TOKEN = Row(
    "Time to first token",
    [
        lines(
            "TTFT",
            "From the last byte of the request to the first output: 95 % and 50 % (dashed) of the"
            " streams wait less. Queueing and prefill are in it. Points are exemplars: single"
            " requests with their trace.",
            SECONDS,
            Query(quantile(0.95, TTFT, "model"), "{{model}} p95", exemplars=True),
            Query(quantile(0.5, TTFT, "model"), "{{model}} p50", dashed=True),
            span=12,
        ),
        heat_map(
            "TTFT, all streams",
            "How many streams had which TTFT. Two bands are two kinds of requests, or two servers.",
            SECONDS,
            buckets(TTFT, LATENCY),
            span=12,
        ),
    ],
)

_DECODE = Row(
    "Decode",
    [
        lines(
            "Decode rate per user",
            "Output tokens per second after the first: half of the streams, and all but 5 %"
            " (dashed), get more. The red line is reading speed.",
            TOKENS_PER_SECOND,
            Query(quantile(0.5, DECODE, "model"), "{{model}} p50"),
            Query(quantile(0.05, DECODE, "model"), "{{model}} p5", dashed=True),
            marks=READING_SPEED,
        ),
        heat_map(
            "Decode rate, all streams",
            "How many streams got which decode rate.",
            TOKENS_PER_SECOND,
            buckets(DECODE, SPEEDS),
        ),
        lines(
            "Throughput by model",
            "Output tokens per second over all users.",
            TOKENS_PER_SECOND,
            Query(rate("output_tokens_total", "model"), "{{model}}"),
            stacked=True,
        ),
    ],
)

OVERVIEW = Board(
    "overview",
    "Overview",
    "How fast the servers are, for whom, and whether they are as fast as they were.",
    [_NOW, Row("Models", [_MODELS]), _EXCHANGES, _FIRST_TOKEN, _DECODE],
)
