"""What a change owes to sizes that moved inside of their class.

A class is wide: TTFT follows the number of tokens all through it, and the time per token the
number of streams. With a slope from the baseline the sizes' part is taken out (analysis of
covariance, one slope for all cells); x is the size as the proxy sums it, ln (256 + uncached tokens)
for TTFT and ln (8 + concurrency) for the time per token::

    slope = sum (sum xy - n mean_x mean_y) / sum (sum x^2 - n mean_x^2)      sums over the cells
    d' = d - slope (mean_x now - mean_x baseline)
    s'^2 = s^2 - slope (2 s_xy - slope s_x^2)
"""

from collections.abc import Iterator

from deploy.prometheus.rules.rule import CELL, MODEL, Record, promql, total
from deploy.prometheus.rules.settings import Settings, duration
from deploy.prometheus.rules.window import Window

_COUNTERS = ("size_sum", "size_sumsq", "size_log_sum")


def tiles(settings: Settings, phase: str) -> Iterator[Record]:
    """As the cells' own, see `index`."""
    window = settings.baseline.tile
    for counter in _COUNTERS:
        yield Record(
            f"cell:tokometer_{phase}_{counter}:tile",
            f"{_increase(phase, counter, window)} > 0",
            f"{counter} of the cell, the last {duration(window)}",
        )


def baseline(settings: Settings, phase: str) -> Iterator[Record]:
    """Slope, and what is needed for it."""
    of, cell, model = settings.baseline.of, f"cell:tokometer_{phase}", f"model:tokometer_{phase}"
    streams, mean = f"{cell}_streams:baseline", f"{cell}_size_mean:baseline"
    squares, products = f"{cell}_size_squares:baseline", f"{cell}_size_products:baseline"
    slope = f"on ({MODEL}) group_left () {model}_size_slope:baseline"
    yield Record(mean, f"{of(f'{cell}_size_sum:tile')} / {streams}", "mean size")
    yield Record(
        squares,
        f"{of(f'{cell}_size_sumsq:tile')} - {streams} * {mean} ^ 2",
        "squares of the sizes about their mean, summed",
    )
    yield Record(
        products,
        f"{of(f'{cell}_size_log_sum:tile')} - {streams} * {mean} * {cell}_log_mean:baseline",
        "products of size and logarithm about their means, summed",
    )
    yield Record(
        f"{model}_size_slope:baseline",
        promql(f"""
            {total(MODEL, products)}
              / ({total(MODEL, squares)} > {settings.least_size_squares})
        """),
        "by how much the logarithm grows with the size",
    )
    yield Record(
        f"{cell}_residual_variance:baseline",
        promql(f"""
            {cell}_log_variance:baseline
              - (2 * {products} - {squares} * {slope}) * {slope} / {streams}
        """),
        "variance of the logarithm about the line",
    )


def part(phase: str, window: Window) -> str:
    """Of the change of each cell that the sizes' drift accounts for, where it is known."""
    cell, model = f"cell:tokometer_{phase}", f"model:tokometer_{phase}"
    sums = _increase(phase, "size_sum", window.length)
    now = f"({sums} / {cell}_streams:{window.name} > 0)"
    slope = f"on ({MODEL}) group_left () {model}_size_slope:baseline"
    return f"({now} - {cell}_size_mean:baseline) * {slope}"


def level(phase: str) -> str:
    """Mean logarithm of each cell in the baseline, without the sizes' part where it is known."""
    cell, model = f"cell:tokometer_{phase}", f"model:tokometer_{phase}"
    mean = f"{cell}_log_mean:baseline"
    slope = f"on ({MODEL}) group_left () {model}_size_slope:baseline"
    return f"({mean} - ({cell}_size_mean:baseline * {slope} or 0 * {mean}))"


def variance(phase: str) -> str:
    """What is left unexplained of the logarithms' variance in the baseline."""
    whole = f"cell:tokometer_{phase}_log_variance:baseline"
    return f"(cell:tokometer_{phase}_residual_variance:baseline or {whole})"


def _increase(phase: str, counter: str, window: int) -> str:
    return total(CELL, f"increase(tokometer_{phase}_{counter}_total[{duration(window)}])")
