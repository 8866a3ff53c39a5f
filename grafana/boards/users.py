"""Who uses it, and how fast is it for them? Only where users are told apart (--user-from)."""

from grafana.board import Board, Panel, Row
from grafana.panels import heat_map, lines
from grafana.parts import COUNT, PER_SECOND, SECONDS, TOKENS_PER_SECOND, Query
from grafana.queries import OWN, RANGE, buckets, of, quantile, rate
from grafana.scales import CALLS, LENGTHS, READERS, READING_SPEED
from grafana.tables import Column, rows

USER = f'{OWN},user=~"$user"'
TTFT = "user_time_to_first_token_seconds"
DECODE = "user_decode_tokens_per_second"
NO_USERS = "Users are not told apart (--user-from)"
NO_TASKS = "No tasks yet"

_TABLE = rows(
    "Users",
    "Each user over the time shown, busiest first. Past --max-users they are `other`.",
    [Column("User", "user")],
    [
        Column("Requests", rate("user_requests_total", "user", "", USER, RANGE), PER_SECOND, 2),
        Column(
            "Output",
            rate("user_output_tokens_total", "user", "", USER, RANGE),
            TOKENS_PER_SECOND,
            1,
        ),
        Column("TTFT p50", quantile(0.5, TTFT, "user", USER, RANGE), SECONDS, 2),
        Column("TTFT p95", quantile(0.95, TTFT, "user", USER, RANGE), SECONDS, 2),
        Column(
            "Decode p50", quantile(0.5, DECODE, "user", USER, RANGE), TOKENS_PER_SECOND, 1, READERS
        ),
        Column(
            "Decode p5", quantile(0.05, DECODE, "user", USER, RANGE), TOKENS_PER_SECOND, 1, READERS
        ),
    ],
    height=9,
    sort="Output",
    empty=NO_USERS,
)

# The same users at every moment, or lines would begin and end at will.
_BUSIEST = (
    f"topk(5, sum by (user) (rate({of('user_output_tokens_total', labels=USER)}[{RANGE}] @ end())))"
)


def _by_user(expr: str) -> Query:
    return Query(f"{expr} and {_BUSIEST}", "{{user}}")


_OVER_TIME: list[Panel] = [
    lines(
        "Output by user",
        "Output tokens per second of the five busiest users.",
        TOKENS_PER_SECOND,
        _by_user(rate("user_output_tokens_total", "user", "", USER)),
        stacked=True,
        empty=NO_USERS,
    ),
    lines(
        "TTFT by user",
        "Median time to first token of the five busiest users.",
        SECONDS,
        _by_user(quantile(0.5, TTFT, "user", USER)),
        empty=NO_USERS,
    ),
    lines(
        "Decode rate by user",
        "Median tokens per second of the five busiest users. The red line is reading speed.",
        TOKENS_PER_SECOND,
        _by_user(quantile(0.5, DECODE, "user", USER)),
        marks=READING_SPEED,
        empty=NO_USERS,
    ),
]

_TASKS: list[Panel] = [
    heat_map(
        "Calls per task",
        "How many tasks of agents took how many requests.",
        COUNT,
        buckets("task_calls", CALLS, OWN),
    ),
    lines(
        "Waiting per task",
        "Time that a task waited for the server, all its calls together.",
        SECONDS,
        Query(quantile(0.95, "task_wait_seconds", labels=OWN), "p95"),
        Query(quantile(0.5, "task_wait_seconds", labels=OWN), "p50", dashed=True),
        empty=NO_TASKS,
    ),
    heat_map(
        "Output tokens per task",
        "How many tasks took how many tokens of output.",
        "suffix:tok",
        buckets("task_output_tokens", LENGTHS, OWN),
    ),
]

USERS = Board(
    "users",
    "Users",
    "Who uses the servers, and what they get.",
    [Row("Users", [_TABLE]), Row("Over time", _OVER_TIME), Row("Tasks", _TASKS)],
    ("job", "instance", "user"),
)
