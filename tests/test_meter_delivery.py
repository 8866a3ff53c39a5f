"""Tokens per chunk, and the decode rate in characters."""

import pytest
from playing import Played, Script, play
from wire import DONE, finished, role, said, thought, used


def chunks(played: Played) -> float | None:
    return played.meter.tokens_per_chunk(played.totals.output)


def test_tokens_per_chunk_are_those_of_all_reads_with_output() -> None:
    script: Script = [
        (50, role()),
        (100, said("abcde")),
        (200, said("fgh")),
        (250, b": ping\n\n"),
        (300, said("ij") + said("kl")),
        (400, finished()),
        (401, used(9, 12)),
        (402, DONE),
    ]
    assert chunks(play(script)) == 4


def test_an_answer_in_one_read_is_one_chunk() -> None:
    whole = said("a") + said("b") + finished() + used(9, 2) + DONE
    assert chunks(play([(100, whole)])) == 2


def test_chunks_of_less_than_a_token_show_as_such() -> None:
    script: Script = [(100, said("a")), (200, said("b")), (300, finished() + used(9, 1) + DONE)]
    assert chunks(play(script)) == 0.5


def test_reasoning_that_is_sent_is_in_chunks_and_what_is_not_sent_is_not() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 8}}
    end = finished() + used(9, 10, **details) + DONE
    assert chunks(play([(100, said("a")), (200, said("b")), (300, end)])) == 1
    assert chunks(play([(100, thought("a")), (200, said("b")), (300, end)])) == 5


def test_without_output_or_a_count_there_are_none() -> None:
    assert chunks(play([(100, role()), (200, finished() + used(9, 0) + DONE)])) is None
    played = play([(100, said("a")), (200, said("b")), (300, finished() + DONE)])
    assert played.meter.tokens_per_chunk(None) is None


def test_text_that_was_not_read_makes_no_chunks() -> None:
    played = play([(100, said("a")), (200, said("b"))], encoding="unheard-of")
    assert played.meter.tokens_per_chunk(2) is None


def test_characters_are_those_after_the_first_output_over_the_decode_phase() -> None:
    script: Script = [(100, role()), (200, said("abcd")), (400, thought("efg")), (700, said("hi"))]
    assert play(script).meter.decode_characters() == pytest.approx(5 / 0.5)


def test_characters_of_one_read_have_no_rate() -> None:
    assert play([(200, said("abcd") + said("e"))]).meter.decode_characters() is None
    assert play([(200, role())]).meter.decode_characters() is None
