"""The like-for-like index on boards. The recording rules of deploy/prometheus make it."""

from grafana_foundation_sdk.builders import stat

from grafana.panels import number
from grafana.queries import RECORDED
from grafana.scales import GREEN, RED, YELLOW
from grafana.tables import Column

# By phase: its name for people, and what is measured.
PHASES = {
    "tpot": ("Decode", "time per output token"),
    "ttft": ("TTFT", "time to first token"),
}
NO_BASELINE = "No baseline yet"
# A quarter faster is worth a look, too, but it is not bad. 1.15 is where the alert fires.
SCALE = [(None, GREEN), (1.08, YELLOW), (1.15, RED)]
LIMIT = [(None, "transparent"), (1.15, RED)]


def recorded(phase: str, rule: str, level: str = "model") -> str:
    """A recorded series of the models that the board shows."""
    return f"{level}:tokometer_{phase}_{rule}{{{RECORDED}}}"


def change(phase: str, rule: str, by: str = "") -> str:
    """A recorded ln of a ratio as a change: 0.25 is 25 % more time.

    The mean of the models chosen, by their streams, or of each `by`.
    """
    kept = f" by ({by})" if by else ""
    ratio, streams = recorded(phase, f"log_ratio:{rule}"), recorded(phase, "streams:matched")
    return f"exp(sum{kept} ({ratio} * {streams}) / (sum{kept} ({streams} and {ratio}) > 0)) - 1"


def big_number(phase: str, span: int, height: int) -> stat.Panel:
    """The worst model's index."""
    name, what = PHASES[phase]
    return number(
        f"{name} index, like for like",
        f"How much longer the {what} is than in the baseline for the same work: 1.25 is 25 %"
        " slower, 1 as fast as ever. Streams are compared with streams of the same context and"
        " concurrency, so that longer prompts or more users do not count as slowness. The slowest"
        " model of those chosen.",
        "none",
        f"max({recorded(phase, 'index:laspeyres')})",
        span=span,
        height=height,
        decimals=2,
        good_or_bad=SCALE,
        course=True,
        empty=NO_BASELINE,
    )


def column(phase: str, title: str) -> Column:
    """Each model's index."""
    expr = f"max by (upstream, model) ({recorded(phase, 'index:laspeyres')})"
    return Column(title, expr, "none", 2, SCALE)
