"""Bounds of histograms: preferred numbers, so that a 25 % change moves a quantile by one bucket."""

import difflib
from collections.abc import Mapping, Sequence

# Renard series of ISO 3 in its rounded forms, one decade each: steps of about 26 % and 58 %.
R10 = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
R5 = ("1", "1.6", "2.5", "4", "6.3")
_DECADES = range(-6, 7)


def preferred(series: Sequence[str], first: float, last: float) -> tuple[float, ...]:
    """The numbers of `series`, from 1e-6 up, that are from `first` to `last`, both included.

    They are read from decimal text and so print as written: never 0.30000000000000004.
    """
    numbers = (float(f"{mantissa}e{decade}") for decade in _DECADES for mantissa in series)
    return tuple(number for number in numbers if first <= number <= last)


TTFT = preferred(R10, 0.001, 125)  # seconds, as all times here
TPOT = preferred(R10, 0.0001, 10)
CHUNK_GAP = preferred(R10, 0.0001, 31.5)
DURATION = preferred(R10, 0.01, 3150)
DECODE_RATE = preferred(R10, 1, 10_000)  # tokens per second
CHARACTER_RATE = preferred(R10, 4, 10_000)  # per second; 25 is about what people read
TOKENS_PER_CHUNK = preferred(R10, 1, 100)
RATIO = (0.0, 0.05, *(tenth / 10 for tenth in range(1, 10)))
PREFILL_RATE = preferred(R5, 1, 100_000)
LENGTH = tuple(float(2**power) for power in range(21))  # tokens
CONNECT = preferred(R5, 0.0001, 10)
CLIENT_WAIT = preferred(R5, 0.001, 100)
TASK_CALLS = tuple(float(2**power) for power in range(13))
TASK_WAIT = preferred(R5, 0.1, 63_000)
OWN_DELAY = preferred(R5, 0.00001, 1)


OURS = "tokometer_"  # what names of metrics begin with; in settings it can be left out


class Bounds:
    """The bounds that hold: `overrides` by metric name, with or without `tokometer_`."""

    def __init__(self, overrides: Mapping[str, Sequence[float]]) -> None:
        self._overrides = {
            OURS + name.removeprefix(OURS): tuple(bounds) for name, bounds in overrides.items()
        }
        self._histograms: set[str] = set()

    def of(self, name: str, default: Sequence[float]) -> Sequence[float]:
        """The bounds of the histogram `name`."""
        self._histograms.add(name)
        return self._overrides.get(name, default)

    def check(self) -> None:
        """Raise ValueError, one line, if an override is for no histogram that was asked for."""
        unknown = sorted(self._overrides.keys() - self._histograms)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._histograms, n=1, cutoff=0.0)
            raise ValueError(f"there is no histogram {unknown[0]}: did you mean {near[0]}?")
