"""Whether a stream comes evenly or in bursts, by its chunk gaps."""

from collections.abc import Sequence

# Fewer gaps tell nothing about their spread.
FEWEST_GAPS = 8
_SHORT = 0.25  # of the mean gap


def burst_ratio(gaps: Sequence[float], stall_seconds: float) -> float | None:
    """Share of the gaps (seconds) that are shorter than a quarter of their mean; None if too few.

    Bursts of k chunks make it (k - 1) / k, an even stream 0; for one whose gaps are exponentially
    distributed it is 1 - exp(-1/4) = 0.22. Stalls are left out, since one of them would raise the
    mean so much that an even stream looked like one burst.
    """
    even = [gap for gap in gaps if gap <= stall_seconds]
    if len(even) < FEWEST_GAPS:
        return None
    short = _SHORT * sum(even) / len(even)
    return sum(gap < short for gap in even) / len(even)
