"""Cells: like is compared with like, by context and by concurrency.

Number, sum and sum of squares of the logarithms are enough for the geometric mean of a cell and
its standard error, and they add up over time, replicas and cells as counters do. A class is wide:
three more tell how the time grows with what it follows all through the class, and so what part of a
change comes from a size that moved inside of it (analysis of covariance).
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from proxy.series import Counter

# A time is a fixed part plus a share for each token, or for each stream of the batch, so that its
# logarithm is nearly straight in ln (a + tokens); what fits best differs by engine, but not much.
_TOKENS_FROM = 256
_STREAMS_FROM = 8
_CONTEXT_FROM = (1024, 4096, 16384, 65536)  # tokens: where the second class begins, and so on
_CONTEXTS = ("0-1k", "1k-4k", "4k-16k", "16k-64k", "64k+")
_CONCURRENCIES = ("1", "2-3", "4-7", "8-15", "16-31", "32-63", "64+")
UNKNOWN_CONTEXT = "unknown"
CELLS = tuple(product((*_CONTEXTS, UNKNOWN_CONTEXT), _CONCURRENCIES))


def context_class(tokens: int | None) -> str:
    """The class of so many prompt tokens."""
    if tokens is None:
        return UNKNOWN_CONTEXT
    return _CONTEXTS[bisect_right(_CONTEXT_FROM, tokens)]


def concurrency_class(streams: float) -> str:
    """The class of so many streams; a mean counts as the nearest whole number.

    Of eight users' streams that begin together, the first one that ends leaves a mean of 7.99 to
    the others: that is eight all the same.
    """
    power = math.floor(streams + 0.5).bit_length() - 1
    return _CONCURRENCIES[min(max(power, 0), len(_CONCURRENCIES) - 1)]


Size = Callable[[int | None, float], float | None]  # of prompt tokens and streams in flight


def prompt_size(tokens: int | None, streams: float) -> float | None:
    """What TTFT grows with all through a class of contexts; None if the tokens are unknown."""
    return None if tokens is None else math.log(_TOKENS_FROM + tokens)


def crowd_size(tokens: int | None, streams: float) -> float:
    """What the time per token grows with all through a class of concurrencies."""
    return math.log(_STREAMS_FROM + streams)


class Sizes(NamedTuple):
    """What is needed to know how a time grows with a size inside of a cell."""

    of: Size
    sum: Counter  # of the sizes
    sumsq: Counter
    log_sum: Counter  # of the products of size and ln of the time


class Cells:
    """The counters of one time (`ttft`, `tpot`), by upstream, model and cell.

    Args:
        crowd: sums `crowd_size`, where that is not the size already.
    """

    def __init__(
        self,
        streams: Counter,
        log_sum: Counter,
        log_sumsq: Counter,
        *,
        sizes: Sizes | None = None,
        crowd: Counter | None = None,
    ) -> None:
        self._streams = streams
        self._log_sum = log_sum
        self._log_sumsq = log_sumsq
        self._sizes = sizes
        self._crowd = crowd

    def observe(
        self, seconds: float, scope: tuple[str, ...], tokens: int | None, streams: float
    ) -> None:
        """Count one stream of `scope` (upstream, model) with its context and its concurrency."""
        # Under a microsecond the logarithm would be negative, which a counter cannot take.
        log = math.log(max(1.0, seconds * 1e6))
        cell = (*scope, context_class(tokens), concurrency_class(streams))
        self._streams.of(*cell).add(1)
        self._log_sum.of(*cell).add(log)
        self._log_sumsq.of(*cell).add(log * log)
        if self._crowd is not None:
            self._crowd.of(*cell).add(crowd_size(tokens, streams))
        if self._sizes is None or (size := self._sizes.of(tokens, streams)) is None:
            return
        self._sizes.sum.of(*cell).add(size)
        self._sizes.sumsq.of(*cell).add(size * size)
        self._sizes.log_sum.of(*cell).add(size * log)
