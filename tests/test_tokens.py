"""Which token count is believed, and the estimate where there is none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.formats.event import Usage
from proxy.tokens import Counts, Learned, Learning, Totals


def told(*reports: Usage | dict[str, float], final: bool = False) -> Counts:
    counts = Counts()
    for report in reports:
        if isinstance(report, Usage):
            counts.take(report, final)
        else:
            counts.take_engine(report, final)
    return counts


def totals(counts: Counts, choices: int = 1, seen: bool = True, **found: Any) -> Totals:
    return counts.totals(choices, seen, found.get("exact"), found.get("estimate"))


# --- sources ------------------------------------------------------------------------------------


def test_the_best_source_wins() -> None:
    usage, engine = Usage(prompt=9, output=5), {"output_tokens": 6.0}
    both: dict[str, Any] = {"exact": 7, "estimate": 8}
    assert totals(told(usage, engine), **both)[:2] == ("usage", 5)
    assert totals(told(engine), **both)[:2] == ("engine", 6)
    assert totals(told(), **both)[:2] == ("stream", 7)
    assert totals(told(), estimate=8)[:2] == ("estimate", 8)
    assert totals(told()) == ("none", None, None, None, None)


def test_no_tokens_are_a_count_only_where_no_output_was_seen() -> None:
    counts = told(Usage(prompt=9, output=0))
    assert totals(counts, seen=True, estimate=3)[:2] == ("estimate", 3)
    assert totals(counts, seen=False)[:2] == ("usage", 0)


def test_the_prompt_is_known_whatever_the_output_came_from() -> None:
    assert totals(told(Usage(prompt=9)), estimate=3) == ("estimate", 3, 9, None, None)
    assert totals(told({"prompt_tokens": 9.0}), exact=3) == ("stream", 3, 9, None, None)


# --- the last value of each field -----------------------------------------------------------------


def test_the_last_value_of_each_field_wins() -> None:
    reports = [Usage(prompt=7, output=1, cached=3), Usage(output=5), Usage(prompt=8, reasoning=2)]
    assert totals(told(*reports)) == ("usage", 5, 8, 3, 2)


def test_zero_replaces_no_count() -> None:
    assert totals(told(Usage(prompt=7, output=5), Usage(prompt=0, output=0)))[:3] == ("usage", 5, 7)
    assert totals(told(Usage(prompt=7, cached=0, output=5))).cached == 0


def test_no_prompt_tokens_are_unknown() -> None:
    assert totals(told(Usage(prompt=0, output=5))).prompt is None


COUNT = st.none() | st.integers(0, 1000)
USAGES = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, st.booleans())


@given(st.lists(USAGES, max_size=6), st.integers(1, 3), st.booleans(), st.booleans())
@settings(deadline=None)
def test_nothing_impossible_comes_out(
    reports: list[Usage], choices: int, seen: bool, final: bool
) -> None:
    found = totals(told(*reports, final=final), choices, seen, estimate=1)
    assert found.output is None or found.output > 0 or not seen
    assert found.prompt is None or found.prompt > 0
    assert found.prompt is None or found.prompt >= (found.cached or 0)
    assert (found.output is None) == (found.source == "none")


# --- reasoning, cached tokens ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        (Usage(prompt=12, output=1, reasoning=290, total=303), 291),
        (Usage(prompt=12, output=291, reasoning=290, total=303), 291),
        (Usage(prompt=12, output=1, reasoning=290, total=None), 1),
        (Usage(prompt=12, output=1, reasoning=None, total=303), 1),
        (Usage(prompt=12, output=1, reasoning=0, total=13), 1),
        (Usage(prompt=12, output=1, reasoning=290, total=999), 1),
        (Usage(prompt=None, output=1, reasoning=290, total=291), 291),
    ],
)
def test_reasoning_is_added_where_the_total_says_that_it_is_beside(
    usage: Usage, output: int
) -> None:
    assert totals(told(usage)).output == output


def test_the_total_may_come_in_another_report() -> None:
    reports = [Usage(prompt=12), Usage(output=1, reasoning=290), Usage(total=303)]
    assert totals(told(*reports)).output == 291


@pytest.mark.parametrize(
    ("usage", "prompt", "cached"),
    [
        (Usage(prompt=100, cached=60), 100, 60),
        (Usage(prompt=18, cached=60, cached_beside=True), 78, 60),
        (Usage(prompt=18, cached=60, cache_written=5, cached_beside=True), 83, 60),
        (Usage(prompt=18, cache_written=5, cached_beside=True), 23, None),
        (Usage(prompt=0, cached=60, cached_beside=True), 60, 60),
        (Usage(prompt=18, cached=60), 78, 60),
        (Usage(cached=60), None, 60),
    ],
)
def test_cached_tokens_are_part_of_the_prompt(
    usage: Usage, prompt: int | None, cached: int | None
) -> None:
    assert told(usage).prompt() == (prompt, cached)


def test_the_engine_counts_cached_tokens_beside_the_prompt() -> None:
    figures = {"prompt_tokens": 54.0, "cached_prompt_tokens": 10.0}
    assert told(figures).prompt() == (64, 10)
    assert told({"prompt_tokens": 54.0}).prompt() == (54, None)
    assert told(figures, Usage(prompt=70)).prompt() == (70, 10)
    assert told(figures, Usage(prompt=70, cached=9)).prompt() == (70, 9)


# --- several choices ------------------------------------------------------------------------------


def test_as_many_final_reports_as_choices_are_added_up() -> None:
    reports = [Usage(prompt=7, output=2), Usage(prompt=7, output=3)]
    assert totals(told(*reports, final=True), 2) == ("usage", 5, 7, None, None)
    assert totals(told(*reports, final=True), 1).output == 3
    assert totals(told(*reports, final=True), 3).output == 3
    assert totals(told(*reports, final=False), 2).output == 3


def test_the_engines_figures_count_where_there_are_as_many_as_choices() -> None:
    figures = [{"output_tokens": 2.0}, {"output_tokens": 3.0}]
    assert totals(told(*figures, final=True), 2)[:2] == ("engine", 5)
    assert totals(told(figures[0], final=True), 2, estimate=9)[:2] == ("estimate", 9)
    assert totals(told(*figures), 1)[:2] == ("engine", 3)


# --- estimates ----------------------------------------------------------------------------------


def test_one_token_an_event_until_something_is_learned() -> None:
    learned = Learned()
    assert (learned.output(100, 7), learned.output(0, 0)) == (7, 0)
    assert learned.whole(100) is None


def test_a_quarter_of_the_prompts_characters_until_something_is_learned() -> None:
    assert [Learned().prompt(characters) for characters in (400, 5, 1)] == [100, 1, 1]


def test_tokens_per_character_are_learned() -> None:
    learned = Learned()
    learned.learn_output(50, 100, 10)
    learned.learn_prompt(10, 100)
    assert (learned.output(60, 1), learned.output(1, 1), learned.output(0, 0)) == (30, 1, 0)
    assert (learned.whole(60), learned.whole(0)) == (30, 0)
    assert learned.prompt(250) == 25


def test_one_token_of_one_character_teaches_too() -> None:
    learned = Learned()
    learned.learn_output(1, 1, 1)
    learned.learn_prompt(1, 1)
    assert (learned.output(9, 1), learned.prompt(9)) == (9, 9)


def test_long_answers_teach_more_and_old_ones_less() -> None:
    learned = Learned()
    learned.learn_output(10, 100, 10)
    learned.learn_output(900, 900, 90)
    assert learned.output(1000, 1) == 912  # (0.98 * 10 + 900) / (0.98 * 100 + 900)
    for _ in range(400):
        learned.learn_output(200, 100, 10)
    assert learned.output(1000, 1) == 2000


@pytest.mark.parametrize("nothing", [(0, 10, 1), (10, 0, 1), (10, 10, 0), (-5, 10, 1)])
def test_nothing_is_learned_of_nothing(nothing: tuple[int, int, int]) -> None:
    learned = Learned()
    learned.learn_output(*nothing)
    learned.learn_prompt(nothing[0], nothing[1])
    assert (learned.output(100, 7), learned.whole(100)) == (7, None)


def steady(times: int) -> Learned:
    """Two tokens an event, of as many characters as it pleases."""
    learned = Learned()
    for turn in range(times):
        learned.learn_output(20, 40 if turn % 2 else 160, 10)
    return learned


def test_events_are_counted_once_they_have_proved_steadier() -> None:
    assert steady(7).output(1000, 30) != 60
    assert steady(8).output(1000, 30) == 60
    assert steady(8).output(0, 0) == 0
    assert steady(8).whole(1000) == steady(7).output(1000, 30) or steady(8).whole(1000) != 60


def test_an_event_of_less_than_a_token_is_one() -> None:
    learned = Learned()
    for turn in range(9):
        learned.learn_output(5, 40 if turn % 2 else 160, 50)
    assert [learned.output(9, events) for events in (1, 10, 40)] == [1, 1, 4]


def test_characters_are_counted_where_they_are_the_steadier_measure() -> None:
    learned = Learned()
    for turn in range(40):
        learned.learn_output(20, 40, 20 if turn % 2 else 5)
    assert learned.output(100, 30) == 50


def test_events_that_stop_being_steady_are_counted_no_more() -> None:
    learned = steady(8)
    for turn in range(60):
        learned.learn_output(20, 100, 10 if turn % 2 else 2)
    assert learned.output(1000, 30) == pytest.approx(200, abs=5)


@given(
    st.lists(st.tuples(st.integers(-1, 10**6), st.integers(-1, 10**6), st.integers(-1, 10**6))),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
@settings(deadline=None)
def test_an_estimate_of_output_is_at_least_one_token(
    lessons: list[tuple[int, int, int]], characters: int, events: int
) -> None:
    learned = Learned()
    for lesson in lessons:
        learned.learn_output(*lesson)
        learned.learn_prompt(*lesson[:2])
    assert learned.output(characters + 1, events + 1) >= 1
    assert learned.output(0, 0) == 0
    assert learned.prompt(characters + 1) >= 1
    assert (learned.whole(characters) or 0) >= 0


# --- by model -----------------------------------------------------------------------------------


def test_each_upstreams_model_is_learned_by_itself() -> None:
    learning = Learning()
    learning.of("a", "m").learn_output(50, 100, 10)
    assert learning.of("a", "m").output(100, 1) == 50
    for other in (("b", "m"), ("a", "n"), ("a", None)):
        assert learning.of(*other).output(100, 1) == 1


def test_the_least_recently_used_model_is_forgotten() -> None:
    learning = Learning(most=2)
    old, used = learning.of("a", "old"), learning.of("a", "used")
    assert learning.of("a", "old") is old
    learning.of("a", "new")
    assert learning.of("a", "old") is old
    assert learning.of("a", "used") is not used
