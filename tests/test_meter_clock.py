"""Clocks that stand, jump or go back give no absurd sample, and a wall clock has no part in any."""

import math

from exchanges import arrived, ended, headed, opened
from hypothesis import given
from hypothesis import strategies as st
from playing import T0, play
from wire import DONE, finished, said, used

TIMES = st.lists(
    st.floats(-1e7, 1e7) | st.sampled_from([0.0, 1e-9, 86_400_000.0]), min_size=1, max_size=8
)


@given(TIMES, st.booleans())
def test_whatever_the_clock_does_no_sample_is_negative_or_infinite(
    times: list[float], shortcut: bool
) -> None:
    reads = [(at, said("Hello")) for at in times]
    played = play([*reads, (times[-1], finished() + used(9, 12) + DONE)], shortcut=shortcut)
    meter = played.meter
    numbers = [*meter.gaps.new, meter.gaps.longest, meter.gaps.stalled, meter.gaps.wait]
    numbers += [n for n in (meter.ttft, meter.ttfv, played.rate) if n is not None]
    assert all(0 <= number < math.inf for number in numbers)


@given(TIMES)
def test_records_of_a_clock_that_jumps_hold_no_absurd_number(times: list[float]) -> None:
    exchange = opened()
    headed(exchange, at=times[0])
    for at in times:
        arrived(exchange, (at, said("Hello")))
    arrived(exchange, (times[-1], finished() + used(9, 12) + DONE))
    told = ended(exchange)
    durations = {key: value for key, value in told.items() if key.endswith(("_seconds", "_second"))}
    assert all(0 <= number < math.inf for number in durations.values()), durations


def test_process_that_slept_counts_one_stall_and_no_output_of_that_time() -> None:
    """As after a suspend: the monotonic clock has gone on, the reads come at once."""
    reads = [(10.0 * n, said("Hello")) for n in range(1, 5)]
    late = [(3_600_000.0 + n, said("Hello")) for n in range(3)]
    played = play([*reads, *late, (3_600_003.0, finished() + used(9, 12) + DONE)])
    assert played.meter.gaps.stalls == 1
    assert played.rate is not None and played.rate < 1


def test_wall_clock_that_jumps_moves_nothing_but_the_time_of_a_line() -> None:
    exchange = opened()
    exchange.wall = -1e9
    headed(exchange)
    arrived(exchange, (10, said("Hello")), (20, finished() + used(9, 12) + DONE))
    told = ended(exchange)
    assert told["time"] == -1e9
    assert round(told["ttft_seconds"], 6) == 0.01 and round(told["duration_seconds"], 6) == 0.02
    assert exchange.t0 == T0
