"""How an exchange ended, by its status and by what the meter saw."""

import pytest
from playing import JSON, play
from wire import DONE, body, finished, said, sse

from proxy.outcome import Outcome, left, verdict

ERROR = sse({"error": {"message": "out of memory", "code": 500}})
WHOLE = [(1.0, said("a")), (2.0, finished()), (3.0, DONE)]


def test_a_status_over_400_is_a_rejection_whatever_the_body() -> None:
    assert {verdict(status, play(WHOLE).meter) for status in (400, 404, 500, 503)} == {
        Outcome.REJECTED
    }


def test_a_stream_is_complete_with_its_terminator_and_truncated_without() -> None:
    assert verdict(200, play(WHOLE).meter) is Outcome.COMPLETED
    assert verdict(200, play(WHOLE[:1]).meter) is Outcome.TRUNCATED


def test_an_error_event_comes_before_all_else() -> None:
    meter = play([*WHOLE[:1], (2.0, ERROR)]).meter
    assert (verdict(200, meter), left(meter)) == (Outcome.ERROR_MIDSTREAM,) * 2


@pytest.mark.parametrize("kind", ["text/plain", JSON])
def test_what_has_no_terminator_is_complete_with_its_last_byte(kind: str) -> None:
    assert verdict(200, play([(1.0, body({"id": "c"}))], kind=kind).meter) is Outcome.COMPLETED


def test_a_client_that_leaves_behind_the_logical_end_has_it_all() -> None:
    assert left(play(WHOLE[:2], ends=False).meter) is Outcome.COMPLETED
    assert left(play(WHOLE[:1], ends=False).meter) is Outcome.CLIENT_CLOSED
