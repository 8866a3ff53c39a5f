"""Has it become slower, and is it the server or the traffic?"""

from grafana_foundation_sdk.builders import table

from grafana import index
from grafana.board import Board, Panel, Row
from grafana.index import LIMIT, NO_BASELINE, PHASES, change, recorded
from grafana.panels import lines, number
from grafana.parts import COUNT, SECONDS, SHARE, TOKENS_PER_SECOND, Query
from grafana.queries import INTERVAL, RANGE, UPSTREAM, of
from grafana.scales import COVERAGE, UP
from grafana.tables import Column, rows

_VERSION = "upstream, model, engine, version"


def _over_time(phase: str) -> list[Panel]:
    name, what = PHASES[phase]
    return [
        index.big_number(phase, span=4, height=8),
        lines(
            f"{name} index",
            f"The {what} over that of the baseline for the same work, with the baseline's shares of"
            " work as weights. The red line is 1.15, where the alert looks. Purple marks are new"
            " versions of the engine.",
            "none",
            Query(recorded(phase, "index:laspeyres"), "{{model}}"),
            span=10,
            marks=LIMIT,
            least=None,
            empty=NO_BASELINE,
        ),
        lines(
            f"{name}: raw change = mix + like for like",
            f"The {what} against the baseline: of all streams (raw), the part that other prompts"
            " and other load account for (mix, dashed), and the part that is left for the same"
            " work. Their logarithms add up. The mean of the models chosen, by their streams.",
            SHARE,
            Query(change(phase, "raw"), "raw"),
            Query(change(phase, "mix"), "mix", dashed=True),
            Query(change(phase, "like_for_like"), "like for like"),
            span=10,
            least=None,
            empty=NO_BASELINE,
        ),
    ]


def _certainty() -> list[Panel]:
    share = (
        "Share of today's streams that are in cells with a baseline. Below 0.5 the index speaks for"
        " too few, and no alert is made of it."
    )
    sure = (
        "ln(index) over its standard error. Alerts ask for more than 4, and for an index over 1.15:"
        " with much traffic a small change is certain, and still small."
    )
    panels: list[Panel] = []
    for phase, (name, _) in PHASES.items():
        panels += [
            lines(
                f"{name}: coverage",
                share,
                SHARE,
                Query(recorded(phase, "coverage:ratio"), "{{model}}"),
                span=6,
                most=1,
                marks=COVERAGE,
                empty=NO_BASELINE,
            ),
            lines(
                f"{name}: standard errors from 1",
                sure,
                "none",
                Query(
                    f"{recorded(phase, 'log_ratio:like_for_like')} /"
                    f" {recorded(phase, 'log_ratio:standard_error')}",
                    "{{model}}",
                ),
                span=6,
                least=None,
                marks=[(None, "transparent"), (4, "red")],
                empty=NO_BASELINE,
            ),
        ]
    return panels


def _by_model(phase: str) -> table.Panel:
    name, what = PHASES[phase]
    each = "upstream, model"

    def latest(rule: str) -> str:
        return f"max by ({each}) ({recorded(phase, rule)})"

    deviation = recorded(phase, "log_ratio:standard_error")
    return rows(
        f"{name}: each model now",
        f"The {what} against the baseline: raw change, the part of it that is mix, the part that is"
        " left for the same work; and how sure that is.",
        [Column("Model", "model"), Column("Upstream", "upstream")],
        [
            Column("Raw change", change(phase, "raw", each), SHARE, 1),
            Column("Mix", change(phase, "mix", each), SHARE, 1),
            Column("Like for like", change(phase, "like_for_like", each), SHARE, 1),
            Column("Index", latest("index:laspeyres"), "none", 2, index.SCALE),
            Column("+/- (95 %)", f"1.96 * max by ({each}) ({deviation})", SHARE, 1),
            Column("Coverage", latest("coverage:ratio"), SHARE, 0),
        ],
        span=12,
        height=6,
        empty=NO_BASELINE,
    )


def _cells(phase: str) -> table.Panel:
    name, what = PHASES[phase]

    def cell(rule: str) -> str:
        return f"max by (upstream, model, context, concurrency) ({recorded(phase, rule, 'cell')})"

    return rows(
        f"{name}: cells, now against baseline",
        f"Geometric means of the {what}, streams of each class of prompt tokens and of concurrency."
        " Weight says how much a cell counts in the alert's index.",
        [
            Column("Model", "model"),
            Column("Upstream", "upstream"),
            Column("Context", "context"),
            Column("Concurrency", "concurrency"),
        ],
        [
            Column("Streams now", cell("streams:now"), COUNT, 0),
            Column("Baseline", cell("streams:baseline"), COUNT, 0),
            Column("Now", f"exp({cell('log_mean:now')}) / 1e6", SECONDS, 2),
            Column("Was", f"exp({cell('log_mean:baseline')}) / 1e6", SECONDS, 2),
            Column("Ratio", f"exp({cell('log_ratio:like_for_like')})", "none", 2, index.SCALE),
            Column("Weight", cell("weight:matched"), COUNT, 1),
        ],
        height=9,
        sort="Weight",
        empty=NO_BASELINE,
    )


def _of_version(cell: str, counter: str) -> str:
    """Summed over the time shown, by the version that ran at each moment."""
    info = (
        f"max by (job, instance, {_VERSION.replace('model, ', '')})"
        f" (tokometer_upstream_info{{{UPSTREAM}}})"
    )
    counted = f"rate({of(f'cell_{cell}_{counter}_total')}[{INTERVAL}])"
    joined = f"{counted} * on (job, instance, upstream) group_left (engine, version) {info}"
    return f"sum by ({_VERSION}) (sum_over_time(({joined})[{RANGE}:{INTERVAL}]))"


def _mean_of_version(cell: str) -> str:
    return f"exp({_of_version(cell, 'log_sum')} / ({_of_version(cell, 'streams')} > 0)) / 1e6"


_VERSIONS = rows(
    "Version against version",
    "Geometric means by what the engine said it was, over the time shown. Not corrected for mix:"
    " see the index for that.",
    [
        Column("Model", "model"),
        Column("Upstream", "upstream"),
        Column("Engine", "engine"),
        Column("Version", "version"),
    ],
    [
        Column(
            "Share of streams",
            f"{_of_version('tpot', 'streams')} / on () group_left ()"
            f" (sum({_of_version('tpot', 'streams')}) > 0)",
            SHARE,
            0,
        ),
        Column("TTFT", _mean_of_version("ttft"), SECONDS, 2),
        Column("Time per output token", _mean_of_version("tpot"), SECONDS, 2),
        Column("Decode rate", f"1 / ({_mean_of_version('tpot')})", TOKENS_PER_SECOND, 1),
    ],
    height=6,
    sort="Model",
)

_CANARY = Row(
    "Canary: the same prompt every time",
    [
        number(
            "Canary",
            "Whether the last one was answered. The worst of those chosen.",
            "none",
            f"min({of('canary_success')})",
            texts={"1": "answered", "0": "failing"},
            good_or_bad=UP,
            height=8,
            empty="No canary set",
        ),
        lines(
            "Canary: TTFT",
            "Time to first token of a fixed prompt: neither prompts nor answers change, only load"
            " and server do.",
            SECONDS,
            Query(of("canary_time_to_first_token_seconds"), "{{model}}"),
            span=10,
            empty="No canary set",
        ),
        lines(
            "Canary: decode rate",
            "Output tokens per second of a fixed prompt.",
            TOKENS_PER_SECOND,
            Query(of("canary_decode_tokens_per_second"), "{{model}}"),
            span=10,
            empty="No canary set",
        ),
    ],
)

REGRESSION = Board(
    "regression",
    "Regression",
    "Whether the servers have become slower for the same work.",
    [
        Row("Decode", _over_time("tpot")),
        Row("Time to first token", _over_time("ttft")),
        Row("Models", [_by_model("tpot"), _by_model("ttft")]),
        Row("How sure it is", _certainty()),
        Row("Cells", [_cells("tpot"), _cells("ttft")]),
        Row("Versions", [_VERSIONS]),
        _CANARY,
    ],
)
