import math

import pytest

from proxy.cells import (
    CELLS,
    Cells,
    Sizes,
    concurrency_class,
    context_class,
    crowd_size,
    prompt_size,
)
from proxy.series import Counter


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        *((0, "0-1k"), (1023, "0-1k"), (1024, "1k-4k"), (4095, "1k-4k"), (4096, "4k-16k")),
        *((16383, "4k-16k"), (16384, "16k-64k"), (65535, "16k-64k"), (65536, "64k+")),
        (None, "unknown"),
    ],
)
def test_context_classes(tokens: int | None, name: str) -> None:
    assert context_class(tokens) == name


@pytest.mark.parametrize(
    ("streams", "name"),
    [
        *((1, "1"), (1.49, "1"), (1.5, "2-3"), (3.4, "2-3"), (4, "4-7"), (7.4, "4-7")),
        *((7.99, "8-15"), (8, "8-15"), (16, "16-31"), (32, "32-63"), (63.4, "32-63")),
        *((64, "64+"), (5000, "64+"), (0.5, "1"), (0.0, "1")),
    ],
)
def test_concurrency_classes(streams: float, name: str) -> None:
    assert concurrency_class(streams) == name


def test_a_cell_sums_logarithms_of_microseconds() -> None:
    counters = [Counter(name, ["u", "m", "c", "n"], "help", CELLS) for name in "abc"]
    cells = Cells(*counters)
    cells.observe(0.25, ("up", "m"), 2000, 3)
    cells.observe(0.5, ("up", "m"), 4000, 2.5)
    first, second = math.log(250_000), math.log(500_000)
    values = [counter.of("up", "m", "1k-4k", "2-3").value for counter in counters]
    assert values == pytest.approx([2, first + second, first**2 + second**2], rel=1e-12)


def test_the_size_is_summed_too() -> None:
    counters = [Counter(name, ["u", "m", "c", "n"], "help", CELLS) for name in "abcdef"]
    cells = Cells(*counters[:3], sizes=Sizes(prompt_size, *counters[3:]))
    cells.observe(0.25, ("up", "m"), 2000, 3)
    cells.observe(0.5, ("up", "m"), 4000, 2.5)
    cells.observe(0.5, ("up", "m"), None, 1)
    small, large = math.log(2256), math.log(4256)
    product = small * math.log(250_000) + large * math.log(500_000)
    sizes = [counter.of("up", "m", "1k-4k", "2-3").value for counter in counters[3:]]
    assert sizes == pytest.approx([small + large, small**2 + large**2, product], rel=1e-12)
    unknown = [counter.of("up", "m", "unknown", "1").value for counter in counters]
    assert unknown == pytest.approx([1, math.log(500_000), math.log(500_000) ** 2, 0, 0, 0])


def test_the_crowd_is_summed_beside_it_for_unknown_sizes_too() -> None:
    counters = [Counter(name, ["u", "m", "c", "n"], "help", CELLS) for name in "abcdefg"]
    cells = Cells(*counters[:3], sizes=Sizes(prompt_size, *counters[3:6]), crowd=counters[6])
    cells.observe(0.25, ("up", "m"), 2000, 2)
    cells.observe(0.5, ("up", "m"), 4000, 3)
    cells.observe(0.5, ("up", "m"), None, 3)
    crowd = [counters[6].of("up", "m", context, "2-3").value for context in ("1k-4k", "unknown")]
    assert crowd == pytest.approx([math.log(10) + math.log(11), math.log(11)])


def test_sizes() -> None:
    assert prompt_size(2000, 3) == pytest.approx(math.log(2256))
    assert prompt_size(None, 3) is None
    assert crowd_size(None, 2.5) == pytest.approx(math.log(10.5))


def test_a_time_below_the_unit_does_not_count_backwards() -> None:
    counters = [Counter(name, ["u", "m", "c", "n"], "help", CELLS) for name in "abc"]
    Cells(*counters).observe(1e-9, ("up", "m"), None, 1)
    assert [counter.of("up", "m", "unknown", "1").value for counter in counters] == [1, 0, 0]


def test_a_model_has_42_cells() -> None:
    assert len(set(CELLS)) == 42
