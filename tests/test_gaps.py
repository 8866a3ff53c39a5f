"""Gaps between reads with output, stalls, and the client's part in them."""

import pytest
from playing import T0, Script, play
from wire import DONE, finished, role, said, used


def test_a_gap_is_between_two_reads_with_output() -> None:
    script: Script = [
        (50, role()),
        (100, said("a")),
        (150, b": ping\n\n"),
        (200, said("b") + said("c")),
        (260, said("d")),
        (900, finished()),
        (901, used(9, 4)),
    ]
    played = play(script)
    assert played.gaps == [100, 60]
    assert played.meter.gaps.longest == pytest.approx(0.1)
    assert played.meter.gaps.last_at == pytest.approx(T0 + 0.26)


def test_a_read_that_ends_inside_an_event_carries_the_ones_that_it_completes() -> None:
    text = said("a") + said("b") + said("c")
    half = len(said("a")) + 20
    played = play([(100, text[:half]), (300, text[half:])])
    assert played.gaps == [200]


def test_no_stall_up_to_the_threshold() -> None:
    played = play([(0, said("a")), (2000, said("b")), (4000, said("c"))])
    assert (played.meter.gaps.stalls, played.meter.gaps.stalled) == (0, 0)


def test_stalls_are_counted() -> None:
    played = play([(100, said("a")), (2500, said("b")), (2600, said("c")), (8600, said("d"))])
    assert played.meter.gaps.stalls == 2
    assert played.meter.gaps.stalled == pytest.approx(2.4 + 6.0)
    assert played.meter.gaps.longest == pytest.approx(6.0)


def test_waiting_for_the_first_output_is_no_stall() -> None:
    assert play([(9000, said("a")), (9100, said("b"))]).meter.gaps.stalls == 0


def test_silence_after_the_last_output_is_no_stall() -> None:
    assert play([(100, said("a")), (9100, finished()), (9200, DONE)]).meter.gaps.stalls == 0


def test_the_threshold_is_a_setting() -> None:
    assert play([(100, said("a")), (401, said("b"))], stall=300).meter.gaps.stalls == 1


# --- the client ---------------------------------------------------------------------------------


def test_a_gap_in_which_the_client_held_things_up_is_not_one() -> None:
    script: Script = [(100, said("a")), (5100, 5000.0), (5100, said("b")), (5200, said("c"))]
    played = play(script)
    assert played.gaps == [0, 100]
    assert played.meter.gaps.stalls == 0
    assert played.meter.gaps.longest == pytest.approx(0.1)
    assert played.meter.gaps.wait == pytest.approx(5.0)


def test_what_a_gap_lasts_longer_than_the_clients_wait_is_the_servers() -> None:
    played = play([(100, said("a")), (600, 400.0), (3600, said("b"))])
    assert played.gaps == [3100]
    assert played.meter.gaps.stalls == 1


def test_a_wait_counts_for_one_gap_only() -> None:
    played = play([(100, said("a")), (200, 50.0), (200, said("b")), (300, said("c"))])
    assert played.gaps == [50, 100]


def limited(*waits: tuple[float, float]) -> str | None:
    texts: Script = [(100.0 * n, said("a")) for n in range(1, 12)]
    ends: Script = [(1200, finished()), (1300, used(9, 11)), (1400, DONE)]
    return play(sorted([*texts, *waits, *ends], key=lambda part: part[0])).skipped


def test_a_client_that_takes_everything_limits_nothing() -> None:
    assert limited() is None


def test_up_to_a_tenth_of_the_decode_phase_the_client_limits_nothing() -> None:
    assert limited((150, 40.0), (750, 60.0)) is None


def test_over_a_tenth_of_the_decode_phase_the_stream_is_client_limited() -> None:
    assert limited((150, 40.0), (750, 60.1)) == "client_limited"


def test_waits_outside_of_the_decode_phase_limit_nothing() -> None:
    assert limited((50, 50.0), (1150, 900.0), (1350, 900.0)) is None


def test_a_client_limited_stream_has_its_times_all_the_same() -> None:
    played = play([(100, said("a")), (600, 400.0), (600, said("b")), (601, used(9, 2))])
    assert (played.rate, played.skipped, played.ttft) == (None, "client_limited", 100)
    assert played.totals.output == 2


def test_gaps_are_told_once() -> None:
    meter = play([(100, said("a")), (150, said("b"))], ends=False).meter
    first = meter.progress()
    meter.read(said("c"), T0 + 0.45)
    second = meter.progress()
    assert first is not None and first.gaps == pytest.approx([0.05])
    assert second is not None and second.gaps == pytest.approx([0.3])
    assert meter.gaps.new == []
    assert meter.gaps.longest == pytest.approx(0.3)
