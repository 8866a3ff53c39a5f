"""A prompt repeated at the beginning of each choice is not output."""

from typing import Any

from proxy.formats.echo import Unechoed
from proxy.formats.event import Event
from proxy.formats.openai import completions_event


def chunk(*choices: tuple[int, str]) -> dict[str, Any]:
    return {"choices": [{"index": index, "text": text} for index, text in choices]}


def visible(read: Unechoed, *chunks: dict[str, Any]) -> list[int]:
    return [event.visible for one in chunks if (event := read(one, "")) is not None]


def test_the_prompt_is_taken_off_however_it_is_cut() -> None:
    read = Unechoed(completions_event, [10], 1)
    assert visible(read, chunk((0, "The sea")), chunk((0, " is blue")), chunk((0, "."))) == [
        0,
        5,
        1,
    ]


def test_each_choice_repeats_the_prompt_that_it_answers() -> None:
    read = Unechoed(completions_event, [2, 4], 2)  # choices 0 and 1 of "ab", 2 and 3 of "wxyz"
    assert visible(
        read,
        chunk((2, "wxyz1")),
        chunk((0, "ab12")),
        chunk((1, "a")),
        chunk((1, "b1")),
        chunk((0, "3")),
        chunk((3, "wxyz")),
    ) == [1, 2, 0, 1, 1, 0]


def test_a_whole_answer_repeats_it_in_every_choice() -> None:
    read = Unechoed(completions_event, [2], 2)
    assert visible(read, chunk((0, "ab123"), (1, "ab4"))) == [4]


def test_a_choice_beyond_those_asked_for_repeats_nothing() -> None:
    assert visible(Unechoed(completions_event, [2], 1), chunk((7, "abc"))) == [3]


def test_events_without_text_pass() -> None:
    read = Unechoed(lambda payload, name: None, [2], 1)
    assert read(chunk((0, "ab")), "") is None
    assert Unechoed(completions_event, [2], 1)(chunk((0, "")), "") == Event()
