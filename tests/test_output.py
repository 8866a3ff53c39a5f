"""What counts as output, and from when; on written streams it is in test_meter_*."""

import pytest

from proxy.formats.event import Event
from proxy.output import Output


def taken(*events: Event, choices: int = 1, streamed: bool = True) -> Output:
    output = Output(choices)
    for at, event in enumerate(events, 1):
        output.take(event, float(at), streamed)
    return output


def test_reasoning_is_output_that_is_not_seen() -> None:
    output = taken(Event(), Event(hidden=3), Event(visible=2))
    assert (output.events, output.characters, output.hidden) == (2, 5, 3)
    assert (output.first_at, output.visible_at, output.first_characters) == (2, 3, 3)


def test_plain_events_behind_the_first() -> None:
    output = taken(Event(visible=2))
    output.plain(3, 12, hidden=False)
    output.plain(1, 4, hidden=True)
    assert (output.events, output.characters, output.hidden) == (5, 18, 4)


def test_what_repeats_the_text_so_far_counts_what_is_new_by_choice() -> None:
    whole = [Event(visible=n, whole=True, index=i) for n, i in ((2, 0), (3, 1), (5, 0), (5, 0))]
    assert taken(*whole).characters == 8
    assert taken(*whole).events == 3
    assert taken(Event(visible=2), Event(visible=9, whole=True, end=True)).characters == 2
    assert taken(*whole, streamed=False).first_at is None


@pytest.mark.parametrize(
    ("events", "choices", "exact"),
    [
        ([Event(visible=1, tokens=2), Event(visible=1, tokens=3)], 1, 5),
        ([Event(visible=1, tokens=2), Event(visible=1)], 1, None),
        ([Event(tokens=1), Event(visible=1, tokens=2)], 1, 3),
        ([], 1, None),
    ],
)
def test_tokens_are_exact_where_each_event_tells(
    events: list[Event], choices: int, exact: int | None
) -> None:
    assert taken(*events, choices=choices).exact == exact


def test_tokens_up_to_the_first_event() -> None:
    assert taken(Event(visible=1, so_far=4)).first_tokens == 4
    assert taken(Event(tokens=3), Event(visible=1, tokens=2)).first_tokens == 5
    assert taken(Event(tokens=3), Event(visible=1, tokens=2), choices=2).first_tokens == 2
    assert taken(Event(visible=1)).first_tokens is None


def test_the_engines_own_count_is_of_one_choice() -> None:
    assert taken(Event(visible=1, so_far=4)).so_far == 4
    assert taken(Event(visible=1, so_far=4), choices=2).so_far is None
