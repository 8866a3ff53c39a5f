"""What the streams are like: their speed, their rhythm, their length."""

from grafana.board import Board, Panel, Row
from grafana.panels import heat_map, lines
from grafana.parts import PER_SECOND, SECONDS, SHARE, TOKENS_PER_SECOND, Query
from grafana.queries import INTERVAL, READING, buckets, of, quantile, rate, ratio, under
from grafana.scales import (
    BLUE,
    CEILING,
    CHUNKS,
    GAPS,
    GREEN,
    LATENCY,
    LENGTHS,
    ORANGE,
    RED,
    SPEEDS,
    TENTHS,
    YELLOW,
)
from grafana.tables import Column, rows

DECODE = "decode_tokens_per_second"
GAP = "chunk_gap_seconds"
CHARACTERS_PER_SECOND = "suffix:chars/s"
TOKENS = "suffix:tok"

# Bounds of the histogram: so many tokens per second, and what reading is like then.
_BANDS = (
    ("", "5.0", "under 5: slower than reading", RED),
    ("5.0", "10.0", "5 to 10: as fast as reading", ORANGE),
    ("10.0", "20.0", "10 to 20: comfortable", YELLOW),
    ("20.0", "40.0", "20 to 40: faster than anyone reads", GREEN),
    ("40.0", "+Inf", "over 40: for machines", BLUE),
)


def _band(above: str, up_to: str) -> str:
    count = rate(f"{DECODE}_bucket", where=f'le="{up_to}"')
    if above:
        lower = rate(f"{DECODE}_bucket", where=f'le="{above}"')
        count = f"({count} - {lower})"
    return ratio(count, rate(f"{DECODE}_count"))


def _pair(metric: str, high: float = 0.95, low: float = 0.5) -> tuple[Query, Query]:
    """Two quantiles of each model, the second one dashed."""
    return (
        Query(quantile(high, metric, "model"), f"{{{{model}}}} p{high * 100:g}"),
        Query(quantile(low, metric, "model"), f"{{{{model}}}} p{low * 100:g}", dashed=True),
    )


_SPEED: list[Panel] = [
    lines(
        "Streams by decode rate",
        "Shares of the streams by the tokens per second that their user gets. People read about 5"
        " tokens per second.",
        SHARE,
        *(Query(_band(above, up_to), name) for above, up_to, name, _ in _BANDS),
        span=12,
        stacked=True,
        most=1,
        colors={name: color for _, _, name, color in _BANDS},
    ),
    heat_map(
        "Decode rate",
        "How many streams got which decode rate.",
        TOKENS_PER_SECOND,
        buckets(DECODE, SPEEDS),
        span=12,
    ),
    lines(
        "Text per second",
        "Characters per second of the median stream, and of all but 5 % (dashed). Tokens of"
        " different models are not the same amount of text, characters are. The red line is reading"
        " speed: 238 words of 6 characters a minute.",
        CHARACTERS_PER_SECOND,
        *_pair("decode_characters_per_second", 0.5, 0.05),
        marks=[(None, "transparent"), (25, "red")],
    ),
    lines(
        "Share of the ceiling (MBU)",
        "Median decode rate over the most that memory bandwidth allows one user (set for the"
        " model). Batches make it smaller for each user; alone, a good engine reaches 60 to 85 %.",
        SHARE,
        Query(
            f"{quantile(0.5, DECODE, 'upstream, model')} / on (upstream, model) "
            f"(max by (upstream, model) ({of('ceiling_tokens_per_second')}) > 0)",
            "{{model}}",
        ),
        most=1,
        marks=CEILING,
        empty="No ceiling set",
    ),
    lines(
        "What the engine says of itself",
        "Median decode rate that engines report (solid) and that users get (dashed). A gap between"
        " them is between engine and user.",
        TOKENS_PER_SECOND,
        Query(quantile(0.5, "engine_decode_tokens_per_second", "model"), "{{model}} engine"),
        Query(quantile(0.5, DECODE, "model"), "{{model}} user", dashed=True),
        empty="The engine reports no rates",
    ),
]

_RHYTHM: list[Panel] = [
    lines(
        "Chunk gaps",
        "Time between two arrivals of output: 99 % and 50 % (dashed) are shorter. A chunk can hold"
        " many tokens, so this is not inter-token latency.",
        SECONDS,
        *_pair(GAP, 0.99, 0.5),
    ),
    heat_map("Chunk gaps, all", "How many gaps were how long.", SECONDS, buckets(GAP, GAPS)),
    lines(
        "Stalls",
        "Gaps over the stall threshold per second.",
        PER_SECOND,
        Query(rate("stalls_total", "model"), "{{model}}"),
    ),
    lines(
        "Stalled share of stream time",
        "Of each second that a stream was in flight, the part spent in gaps over the stall"
        " threshold.",
        SHARE,
        Query(
            ratio(
                rate("stalled_seconds_total", "model"),
                f"sum by (model) (avg_over_time({of('streams')}[{INTERVAL}]))",
            ),
            "{{model}}",
        ),
    ),
    heat_map(
        "Tokens per chunk",
        "How many tokens come at once: 1 is token by token; more is speculation, multi-token steps"
        " or buffering on the way.",
        TOKENS,
        buckets("tokens_per_chunk", CHUNKS),
    ),
    heat_map(
        "Bursts",
        "How many streams had which share of their chunk gaps under a quarter of the mean: near 0"
        " they come evenly, at 0.5 two at a time. Much of it: something between engine and proxy"
        " buffers.",
        SHARE,
        buckets("burst_ratio", TENTHS),
    ),
]

_LENGTHS: list[Panel] = [
    lines(
        "Prompt length", "Tokens of prompts, cached ones included.", TOKENS, *_pair("prompt_tokens")
    ),
    heat_map(
        "Prompts",
        "How many exchanges had prompts of which length.",
        TOKENS,
        buckets("prompt_tokens", LENGTHS),
    ),
    lines(
        "Prompt tokens",
        "Prompt tokens per second over all users.",
        TOKENS_PER_SECOND,
        Query(rate("prompt_tokens_total", "model"), "{{model}}"),
    ),
    lines(
        "Output length", "Tokens of answers, reasoning included.", TOKENS, *_pair("output_tokens")
    ),
    heat_map(
        "Answers",
        "How many exchanges had answers of which length.",
        TOKENS,
        buckets("output_tokens", LENGTHS),
    ),
    lines(
        "Prompt tokens from cache",
        "Share of prompt tokens that the engine says it had cached.",
        SHARE,
        Query(
            ratio(
                rate("cached_prompt_tokens_total", "model"), rate("prompt_tokens_total", "model")
            ),
            "{{model}}",
        ),
        most=1,
    ),
]

_REASONING: list[Panel] = [
    lines(
        "Reasoning",
        "Share of output tokens that were reasoning, as the upstream counts them.",
        SHARE,
        Query(
            ratio(rate("reasoning_tokens_total", "model"), rate("output_tokens_total", "model")),
            "{{model}}",
        ),
        most=1,
        span=6,
    ),
    lines(
        "First visible output",
        "Median time to the first output that is not reasoning (solid) and to the first of any kind"
        " (dashed).",
        SECONDS,
        Query(quantile(0.5, "time_to_first_visible_output_seconds", "model"), "{{model}} visible"),
        Query(quantile(0.5, "time_to_first_token_seconds", "model"), "{{model}} any", dashed=True),
        span=6,
    ),
    heat_map(
        "First visible output, all streams",
        "How many streams showed their first output after which time.",
        SECONDS,
        buckets("time_to_first_visible_output_seconds", LATENCY),
        span=6,
    ),
    lines(
        "Characters",
        "Characters of output per second over all users.",
        CHARACTERS_PER_SECOND,
        Query(rate("output_characters_total", "model"), "{{model}}"),
        span=6,
    ),
]

_BEFORE: list[Panel] = [
    lines(
        "Head of the answer",
        "Until status and headers came: 95 % and 50 % (dashed) take less. Much of TTFT after it is"
        " prefill; much before it is a queue.",
        SECONDS,
        *_pair("time_to_headers_seconds"),
    ),
    lines(
        "Prefill rate",
        "Median uncached prompt tokens per second of TTFT, as users get them. Queueing is"
        " inside it.",
        TOKENS_PER_SECOND,
        Query(quantile(0.5, "prefill_tokens_per_second", "model"), "{{model}}"),
    ),
    lines(
        "Prefill rate, the engine's own",
        "Median that engines report.",
        TOKENS_PER_SECOND,
        Query(quantile(0.5, "engine_prefill_tokens_per_second", "model"), "{{model}}"),
        empty="The engine reports no rates",
    ),
]

_DIALS = rows(
    "What the speeds are of",
    "Precision, hardware and engine, as the settings say: to be quoted with any speed.",
    [
        Column("Model", "model"),
        Column("Upstream", "upstream"),
        Column("Precision", "precision"),
        Column("Hardware", "hardware"),
        Column("Engine", "engine"),
    ],
    [
        Column(
            "Slower than reading",
            f"max by (upstream, model, precision, hardware, engine) ({of('model_info')}) * on"
            " (upstream, model) group_left ()"
            f" ({under(DECODE, READING, 'upstream, model', window='$__range')})",
            SHARE,
            1,
        ),
        Column(
            "Decode p50",
            f"max by (upstream, model, precision, hardware, engine) ({of('model_info')}) * on"
            " (upstream, model) group_left ()"
            f" {quantile(0.5, DECODE, 'upstream, model', window='$__range')}",
            TOKENS_PER_SECOND,
            1,
        ),
    ],
    height=6,
    empty="No model is described in the settings",
)

STREAMS = Board(
    "streams",
    "Streams",
    "What streams are like: speed, rhythm, length.",
    [
        Row("Speed", _SPEED),
        Row("Rhythm", _RHYTHM),
        Row("Before the first token", _BEFORE),
        Row("Length", _LENGTHS),
        Row("Reasoning and text", _REASONING),
        Row("Dials", [_DIALS]),
    ],
)
