"""What a change of TTFT owes to a concurrency that moved inside of its class.

The slope of `sizes` is that of the prompts. TTFT grows with the number of streams, too, and the
last class before an overload may be 32 to 63 of them. How much it grows is taken from the
baseline's cells of the same context, which differ by concurrency; x is ln (8 + concurrency), summed
for each cell as the proxy does, y the mean logarithm of a cell without the prompts' part::

    slope = sum n (x - x_c) y / sum n (x - x_c)^2       x_c: mean of the cells of the context
    d'' = d' - slope (x now - x baseline)
"""

from collections.abc import Iterator

from deploy.prometheus.rules import sizes
from deploy.prometheus.rules.rule import CELL, MODEL, Record, promql, total
from deploy.prometheus.rules.settings import Settings, duration
from deploy.prometheus.rules.window import Window

PHASE = "ttft"
_CELL, _MODEL = f"cell:tokometer_{PHASE}", f"model:tokometer_{PHASE}"
_STREAMS, _MEAN = f"{_CELL}_streams:baseline", f"{_CELL}_crowd_mean:baseline"
_SLOPE = f"{_MODEL}_crowd_slope:baseline"


def tiles(settings: Settings) -> Iterator[Record]:
    """As the cells' own, see `index`."""
    window = settings.baseline.tile
    yield Record(
        f"{_CELL}_crowd_sum:tile",
        f"{_increase(window)} > 0",
        f"crowd_sum of the cell, the last {duration(window)}",
    )


def baseline(settings: Settings) -> Iterator[Record]:
    """Slope, and what is needed for it."""
    summed = settings.baseline.of(f"{_CELL}_crowd_sum:tile")
    yield Record(_MEAN, f"{summed} / {_STREAMS}", "mean of ln (8 + concurrency)")
    context = f"{MODEL}, context"
    mean = (
        f"{total(context, f'{_STREAMS} * {_MEAN}')} / {total(context, f'{_STREAMS} and {_MEAN}')}"
    )
    deviation = f"({_MEAN} - on ({context}) group_left () ({mean}))"
    yield Record(
        _SLOPE,
        promql(f"""
            {total(MODEL, f"{_STREAMS} * {deviation} * {sizes.level(PHASE)}")}
              / ({total(MODEL, f"{_STREAMS} * {deviation} ^ 2")} > {settings.least_size_squares})
        """),
        "by how much the logarithm grows with that",
    )


def part(window: Window) -> str:
    """Of the change of each cell, where it is known."""
    now = f"({_increase(window.length)} / {_CELL}_streams:{window.name} > 0)"
    return f"({now} - {_MEAN}) * on ({MODEL}) group_left () {_SLOPE}"


def _increase(window: int) -> str:
    return total(CELL, f"increase(tokometer_{PHASE}_crowd_sum_total[{duration(window)}])")
