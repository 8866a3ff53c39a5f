"""Who uses it, and how fast is it for them? Only where users are told apart (--user-from)."""

from grafana.board import Board, Panel, Row
from grafana.panels import heat_map, lines
from grafana.parts import COUNT, PER_SECOND, SECONDS, TOKENS_PER_SECOND, Query
from grafana.queries import OWN, RANGE, buckets, quantile, rate
from grafana.scales import LENGTHS, READERS
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

_OVER_TIME: list[Panel] = [
    lines(
        "Output by user",
        "Output tokens per second of the ten busiest users.",
        TOKENS_PER_SECOND,
        Query(f"topk(10, {rate('user_output_tokens_total', 'user', '', USER)})", "{{user}}"),
        stacked=True,
        empty=NO_USERS,
    ),
    lines(
        "TTFT by user",
        "Median time to first token; the ten users who wait longest.",
        SECONDS,
        Query(f"topk(10, {quantile(0.5, TTFT, 'user', USER)})", "{{user}}"),
        empty=NO_USERS,
    ),
    lines(
        "Decode rate by user",
        "Median tokens per second; the ten slowest users.",
        TOKENS_PER_SECOND,
        Query(f"bottomk(10, {quantile(0.5, DECODE, 'user', USER)})", "{{user}}"),
        empty=NO_USERS,
    ),
]

_TASKS: list[Panel] = [
    lines(
        "Calls per task",
        "How many requests one task of an agent takes: 95 % and 50 % (dashed) take fewer.",
        COUNT,
        Query(quantile(0.95, "task_calls", labels=OWN), "p95"),
        Query(quantile(0.5, "task_calls", labels=OWN), "p50", dashed=True),
        empty=NO_TASKS,
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
