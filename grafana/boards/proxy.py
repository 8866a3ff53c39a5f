"""Is the proxy itself all right, and can its figures be believed?"""

from grafana.board import Board, Panel, Row
from grafana.panels import heat_map, lines, number
from grafana.parts import COUNT, PER_SECOND, SECONDS, SHARE, Query
from grafana.queries import OWN, RANGE, UPSTREAM, buckets, of, quantile, rate
from grafana.scales import ANY, DELAYS, UP
from grafana.tables import Column, rows

LAG = "event_loop_lag_seconds"
OVERHEAD = "overhead_seconds"

_STATE: list[Panel] = [
    number(
        "Scraped",
        "Proxies that Prometheus reaches.",
        COUNT,
        f"sum(up{{{OWN}}})",
        good_or_bad=UP,
        empty="No proxy",
    ),
    number(
        "Upstreams up",
        "Share of upstreams to which the last connection could be made.",
        SHARE,
        f"avg({of('upstream_up', labels=UPSTREAM)})",
        good_or_bad=UP,
    ),
    number(
        "Workers ready",
        "Worker processes that take requests.",
        COUNT,
        "sum(" + of("workers", 'state="ready"', OWN) + ")",
    ),
    number(
        "Own delay, p99",
        "From a chunk read to the chunk handed to the client's socket: 99 % take less.",
        SECONDS,
        quantile(0.99, OVERHEAD, labels=UPSTREAM),
        good_or_bad=[(None, "green"), (0.005, "red")],
    ),
    number(
        "Records lost",
        "What workers could not tell the keeper, per second: metrics are short of these.",
        PER_SECOND,
        rate("records_dropped_total", labels=OWN),
        good_or_bad=ANY,
        empty="No proxy",
    ),
    number(
        "Log lines lost",
        "Lines of the request log that could not be written, per second.",
        PER_SECOND,
        rate("log_lines_lost_total", labels=OWN),
        good_or_bad=ANY,
        empty="No proxy",
    ),
]

_DELAY: list[Panel] = [
    lines(
        "Own delay",
        "From a chunk read to the chunk handed to the client's socket: 99 % and 50 % (dashed) take"
        " less. A sample of chunks.",
        SECONDS,
        Query(quantile(0.99, OVERHEAD, "upstream", UPSTREAM), "{{upstream}} p99"),
        Query(quantile(0.5, OVERHEAD, "upstream", UPSTREAM), "{{upstream}} p50", dashed=True),
    ),
    heat_map(
        "Own delay, all samples",
        "How many chunks were delayed by how much.",
        SECONDS,
        buckets(OVERHEAD, DELAYS, UPSTREAM),
    ),
    lines(
        "Event loop lag",
        "By how much workers' event loops were late: 99 % and 50 % (dashed) less. What is late here"
        " is stamped late.",
        SECONDS,
        Query(quantile(0.99, LAG, "instance", OWN), "{{instance}} p99"),
        Query(quantile(0.5, LAG, "instance", OWN), "{{instance}} p50", dashed=True),
        empty="No proxy",
    ),
    lines(
        "Connecting to upstreams",
        "Making a connection: 99 % and 50 % (dashed) take less. Kept connections need none.",
        SECONDS,
        Query(quantile(0.99, "connect_seconds", "upstream", UPSTREAM), "{{upstream}} p99"),
        Query(
            quantile(0.5, "connect_seconds", "upstream", UPSTREAM), "{{upstream}} p50", dashed=True
        ),
        empty="No new connections",
    ),
    lines(
        "Clients that do not take bytes",
        "Time of an exchange in which the client did not take bytes: 99 % and 95 % (dashed) less."
        " Streams with much of it stay out of speeds.",
        SECONDS,
        Query(quantile(0.99, "client_wait_seconds", "model"), "{{model}} p99"),
        Query(quantile(0.95, "client_wait_seconds", "model"), "{{model}} p95", dashed=True),
    ),
    lines(
        "Workers",
        "Worker processes by state.",
        COUNT,
        Query(f"sum by (state) ({of('workers', labels=OWN)})", "{{state}}"),
        stacked=True,
        empty="No proxy",
    ),
]

_BELIEF: list[Panel] = [
    lines(
        "Where token counts come from",
        "Share of exchanges by source: the upstream's own count (usage), its timings (engine), ids"
        " in the chunks (stream), an estimate, or none.",
        SHARE,
        Query(
            f"{rate('token_counts_total', 'source')} / on () group_left ()"
            f" ({rate('token_counts_total')} > 0) > 0",
            "{{source}}",
        ),
        span=6,
        stacked=True,
        most=1,
    ),
    lines(
        "Streams without a decode rate",
        "Per second, by reason. They have no sample in speed histograms.",
        PER_SECOND,
        Query(rate("skipped_total", "reason") + " > 0", "{{reason}}"),
        span=6,
        stacked=True,
        empty="None",
    ),
    lines(
        "Names folded into other",
        "Values of a label past its limit (--max-models, --max-users), per second.",
        PER_SECOND,
        Query(rate("label_overflow_total", "label", labels=OWN), "{{label}}"),
        span=6,
        empty="No proxy",
    ),
    lines(
        "Refused by the proxy",
        "Requests per second that no upstream saw, by reason. They are in no other figure.",
        PER_SECOND,
        Query(rate("refused_total", "reason", labels=OWN) + " > 0", "{{reason}}"),
        span=6,
        stacked=True,
        empty="None",
    ),
]

_WHAT_RUNS: list[Panel] = [
    rows(
        "Upstreams",
        "What each upstream says it is.",
        [Column("Upstream", "upstream"), Column("Engine", "engine"), Column("Version", "version")],
        [
            Column(
                "Proxies that see it",
                f"count by (upstream, engine, version) ({of('upstream_info', labels=UPSTREAM)})",
                COUNT,
                0,
            )
        ],
        span=12,
        height=6,
        empty="No upstream says what it is",
    ),
    rows(
        "Proxies",
        "Each proxy, its version and its traffic.",
        [Column("Proxy", "instance"), Column("Version", "version"), Column("Python", "python")],
        [
            Column(
                "Exchanges",
                f"{rate('requests_total', 'instance', labels=OWN, window=RANGE)} * on (instance)"
                " group_left (version, python) max by (instance, version, python)"
                f" ({of('build_info', labels=OWN)})",
                PER_SECOND,
                2,
            )
        ],
        span=12,
        height=6,
        empty="No proxy",
    ),
]

PROXY = Board(
    "proxy",
    "Proxy",
    "Whether the proxy is all right, and where its figures come from.",
    [
        Row("State", _STATE),
        Row("Delay", _DELAY),
        Row("What the figures rest on", _BELIEF),
        Row("What runs", _WHAT_RUNS),
    ],
)
