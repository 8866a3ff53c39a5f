"""N, the prompt and the reasoning: what the meter believes of what a stream tells."""

from typing import Any

import pytest
from playing import play
from wire import (
    DONE,
    MODEL,
    called,
    chunk,
    completion,
    counts,
    finished,
    reasoned,
    role,
    said,
    sse,
    thought,
    used,
)

TWO: dict[str, Any] = {"stream": True, "n": 2, "messages": []}
TIMINGS = {
    "cache_n": 10,
    "prompt_n": 54,
    "prompt_ms": 200.0,
    "predicted_n": 3,
    "predicted_ms": 90.0,
}


def test_the_upstreams_count_is_believed() -> None:
    totals = play([(10, said("ab")), (20, said("cd")), (21, used(12, 7)), (22, DONE)]).totals
    assert totals == ("usage", 7, 12, None, None)


def test_usage_on_the_finish_chunk() -> None:
    reported = counts(2612, 8, prompt_tokens_details={"cached_tokens": 2560})
    last = sse(chunk({"content": ""}, "length", usage=reported))
    played = play([(200, said("ab")), (300, said("cd")), (301, last), (302, DONE)])
    assert played.totals == ("usage", 8, 2612, 2560, None)
    assert played.meter.finish == "length"


def test_growing_usage_is_not_summed() -> None:
    grown = [(100 * n, said("a", usage=counts(7, n))) for n in (1, 3, 5)]
    assert play([*grown, (401, finished(usage=counts(7, 6)))]).totals.output == 6


def test_zeros_are_placeholders() -> None:
    zeros = [(100 * n, completion("ab", usage=counts(0, 0))) for n in (1, 2, 3)]
    script = [*zeros, (301, completion("", "stop", usage=counts(11, 18))), (302, DONE)]
    played = play(script, "/v1/completions")
    assert played.totals == ("usage", 18, 11, None, None)
    assert played.rate == pytest.approx(12 / 0.2)


def test_zeros_after_a_count_do_not_undo_it() -> None:
    script = [(100, said("a", usage=counts(7, 5))), (200, used(0, 0)), (201, used(0, 6))]
    assert play(script).totals == ("usage", 6, 7, None, None)


def test_only_zeros_are_no_count() -> None:
    played = play([(100, said("a")), (200, said("b")), (201, used(0, 0))])
    assert played.totals == ("estimate", 2, None, None, None)


def test_no_tokens_for_output_that_was_seen_are_no_count() -> None:
    played = play([(100, said("a")), (200, said("b")), (201, used(9, 0))])
    assert played.totals == ("estimate", 2, 9, None, None)


def test_no_tokens_for_no_output_are_a_count() -> None:
    assert play([(100, role()), (200, finished()), (201, used(9, 0))]).totals.output == 0


def test_null_is_no_count() -> None:
    script = [
        (100, said("a", usage=None)),
        (200, said("b", usage=counts(7, 5))),
        (201, finished(usage=None)),
        (202, finished(usage={"prompt_tokens": None, "completion_tokens": None})),
    ]
    assert play(script).totals == ("usage", 5, 7, None, None)


@pytest.mark.parametrize("absurd", [-1, 10**15, 1.5, True, "7", [7], {}])
def test_what_is_no_number_of_tokens_is_no_count(absurd: object) -> None:
    reported = sse({"choices": [], "usage": {"prompt_tokens": absurd, "completion_tokens": absurd}})
    totals = play([(100, said("a")), (200, said("b")), (201, reported)]).totals
    assert totals == ("estimate", 2, None, None, None)


def test_fields_are_taken_one_by_one() -> None:
    last = sse({"choices": [], "usage": {"completion_tokens": 5}})
    cached = used(8, 3, prompt_tokens_details={"cached_tokens": 4})
    script = [(100, said("a", usage={"prompt_tokens": 7})), (200, cached), (300, last)]
    assert play(script).totals == ("usage", 5, 8, 4, None)


def test_usage_after_the_terminator_counts() -> None:
    assert play([(100, said("a")), (200, DONE), (300, used(9, 4))]).totals.output == 4


def test_usage_beside_other_keys_counts() -> None:
    last = sse({"choices": [], "usage": counts(9, 4), "metrics": {"x": 1}, "service_tier": "a"})
    assert play([(100, said("a")), (200, last)]).totals.output == 4


def test_usage_twice_in_a_chunk_counts_once() -> None:
    last = finished(usage=counts(5, 2), x_groq={"usage": counts(5, 2)})
    assert play([(100, said("ab")), (200, said("cd")), (201, last)]).totals == (
        ("usage", 2, 5, None, None)
    )


def test_usage_of_groq_alone_counts() -> None:
    last = finished(x_groq={"usage": counts(5, 2)})
    assert play([(100, said("ab")), (200, said("cd")), (201, last)]).totals.output == 2


# --- reasoning and cached tokens ------------------------------------------------------------------


def test_reasoning_counted_beside_the_output_is_added() -> None:
    script = [(100, thought("hmm")), (200, said("42")), (202, reasoned(12, 1, 290, 303))]
    assert play(script).totals == ("usage", 291, 12, None, 290)


def test_reasoning_inside_the_output_is_part_of_it() -> None:
    script = [(100, thought("hmm")), (200, said("42")), (202, reasoned(12, 291, 290, 303))]
    assert play(script).totals == ("usage", 291, 12, None, 290)


def test_no_reasoning_tokens_though_reasoning_was_seen_is_a_placeholder() -> None:
    script = [(100, thought("hmm")), (200, said("42")), (202, used(12, 9, reasoning_tokens=0))]
    assert play(script).totals == ("usage", 9, 12, None, None)
    assert play([(200, said("42")), (202, used(12, 9, reasoning_tokens=0))]).totals.reasoning == 0


def test_cached_tokens_are_part_of_the_prompt_whoever_counts_them_beside() -> None:
    inside = used(8849, 2, prompt_tokens_details={"cached_tokens": 8831})
    assert play([(200, said("a")), (202, inside)]).totals == ("usage", 2, 8849, 8831, None)
    beside = used(18, 2, prompt_tokens_details={"cached_tokens": 8831})
    assert play([(200, said("a")), (202, beside)]).totals == ("usage", 2, 8849, 8831, None)


# --- the engine's own figures, and what the stream itself tells ----------------------------------


def test_the_engines_own_figures_count_where_there_is_no_usage() -> None:
    texts = [(200, said("ab")), (250, said("cd")), (300, said("ef"))]
    played = play([*texts, (301, finished(timings=TIMINGS)), (302, DONE)])
    assert played.totals == ("engine", 3, 64, 10, None)
    assert played.rate == pytest.approx(2 / 0.1)
    assert played.meter.engine == {
        "cached_prompt_tokens": 10,
        "prompt_tokens": 54,
        "prompt_seconds": 0.2,
        "output_tokens": 3,
        "decode_seconds": 0.09,
    }


def test_usage_is_better_than_the_engines_own_figures() -> None:
    last = sse({"choices": [], "usage": counts(70, 5), "timings": TIMINGS})
    assert play([(200, said("ab")), (300, last)]).totals == ("usage", 5, 70, 10, None)


def ids(text: str, *tokens: int) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "token_ids": list(tokens)}
    return sse({"model": MODEL, "choices": [choice]})


def test_token_ids_count_where_every_event_has_them() -> None:
    script = [(100, ids("a", 1, 2)), (200, ids("b", 3)), (300, ids("c", 4, 5))]
    assert play(script).totals == ("stream", 5, None, None, None)
    assert play([*script, (400, said("d"))]).totals == ("estimate", 4, None, None, None)


def test_a_count_of_the_stream_so_far_is_known_when_it_breaks_off() -> None:
    timed = [
        (100, said("a", timings={"predicted_n": 2})),
        (200, said("b", timings={"predicted_n": 7})),
    ]
    played = play(timed, ends=False)
    assert played.totals.output == 7
    assert played.rate == pytest.approx(5 / 0.1)
    assert played.meter.tokens_so_far() == 7


def test_one_token_an_event_is_assumed_before_anything_is_known() -> None:
    played = play(
        [(100, said("abcdef")), (200, said("b")), (300, thought("c")), (400, called("d"))]
    )
    assert played.totals == ("estimate", 4, None, None, None)


def test_no_output_and_no_count_are_no_estimate() -> None:
    assert play([(100, role()), (200, finished())]).totals == ("none", None, None, None, None)


# --- several choices ------------------------------------------------------------------------------


def choice(text: str, index: int, finish: str | None = None, **beside: Any) -> bytes:
    return sse(chunk({"content": text} if text else {}, finish, index, **beside))


BOTH = [(100, choice("a", 0)), (110, choice("b", 1)), (200, choice("c", 0)), (210, choice("d", 1))]


def test_usage_of_all_choices_is_believed() -> None:
    ends = [(211, choice("", 0, "stop")), (212, choice("", 1, "stop")), (213, used(9, 4))]
    played = play([*BOTH, *ends], asked=TWO)
    assert played.totals == ("usage", 4, 9, None, None)
    assert played.rate == pytest.approx(3 / 0.11)


def test_usage_once_per_choice_is_summed_but_for_the_prompt() -> None:
    ends = [(211, choice("", 0, "stop")), (212, used(7, 2))]
    ends += [(213, choice("", 1, "stop")), (214, used(7, 2)), (215, DONE)]
    assert play([*BOTH, *ends], asked=TWO).totals == ("usage", 4, 7, None, None)


def test_usage_on_the_finish_chunk_of_each_choice_is_summed() -> None:
    ends = [
        (211, completion("", "length", 1, usage=counts(4, 8), timings=TIMINGS)),
        (213, completion("", "length", 0, usage=counts(4, 9), timings=TIMINGS)),
    ]
    asked = {"stream": True, "prompt": ["a", "b"]}
    texts = [(100, completion("a")), (110, completion("b", None, 1))]
    assert play([*texts, *ends], "/v1/completions", asked).totals.output == 17


def test_growing_usage_of_each_choice_is_replaced_by_that_of_all() -> None:
    grown = [
        (100, choice("a", 0, usage=counts(7, 2))),
        (110, choice("b", 1, usage=counts(7, 3))),
        (200, choice("c", 0, "stop", usage=counts(7, 4))),
        (210, choice("d", 1, "stop", usage=counts(7, 5))),
        (220, used(7, 9)),
    ]
    assert play(grown, asked=TWO).totals.output == 9


def test_usage_twice_for_one_choice_is_not_summed() -> None:
    assert play([(100, said("a")), (200, used(7, 4)), (210, used(7, 4))]).totals.output == 4


def test_an_engines_figures_for_one_of_two_choices_are_not_those_of_both() -> None:
    ends = [(211, choice("", 0, "stop", timings=TIMINGS))]
    assert play([*BOTH, *ends], asked=TWO).totals.source == "estimate"
    ends += [(213, choice("", 1, "stop", timings=TIMINGS))]
    assert play([*BOTH, *ends], asked=TWO).totals == ("engine", 6, 64, 10, None)


# --- while it runs --------------------------------------------------------------------------------


def test_progress_adds_up_to_the_total() -> None:
    face_script = [
        (100, ids("ab", 1, 2)),
        (200, ids("c", 3)),
        (300, ids("", 4)),
        (400, ids("d", 5)),
    ]
    meter = play(face_script[:1], ends=False).meter
    told = [meter.progress()]
    for milliseconds, data in face_script[1:]:
        meter.read(data, 5000 + milliseconds / 1000)
        told.append(meter.progress())
    assert meter.progress() is None
    seen = [one for one in told if one is not None]
    assert [one.tokens for one in seen] == [2, 1, 1, 1]
    assert [one.characters for one in seen] == [2, 1, 0, 1]
    assert [len(one.gaps) for one in seen] == [0, 1, 0, 1]
    assert [one.first for one in seen] == [True, False, False, False]
    assert [one.visible for one in seen] == [True, False, False, False]
    assert sum(one.tokens for one in seen) == meter.totals().output == 5


def test_progress_never_goes_back() -> None:
    meter = play([(100, said("a", usage=counts(7, 9)))], ends=False).meter
    first = meter.progress()
    meter.read(said("b", usage=counts(7, 4)), 5001.0)
    second = meter.progress()
    assert first is not None and second is not None
    assert (first.tokens, second.tokens, second.characters) == (9, 0, 1)


def test_the_first_seen_output_is_told_when_it_comes() -> None:
    meter = play([(100, thought("a"))], ends=False).meter
    first = meter.progress()
    meter.read(said("b"), 5001.0)
    second = meter.progress()
    assert first is not None and second is not None
    assert (first.first, first.visible, second.first, second.visible) == (True, False, False, True)
