from proxy.labels import MAX_LABEL_CHARACTERS, USUAL_CODES, Models, clean
from proxy.meter import Outcome


def models(most: int = 100) -> tuple[Models, list[str]]:
    overflows: list[str] = []
    return Models(most, lambda: overflows.append("one")), overflows


def test_labels_are_printable_and_bounded() -> None:
    assert clean("org/Model-7B:q4") == "org/Model-7B:q4"
    assert clean(" a\n\x00b ") == "a??b"
    assert clean("日本") == "日本"
    assert len(clean("x" * 5000)) == MAX_LABEL_CHARACTERS
    assert clean("\ud800") == "?"


def test_a_name_is_unknown_until_it_was_answered_to() -> None:
    guard, _ = models()
    assert guard.label("up", "m") == "unknown"
    assert guard.learn("up", "m", "m") == "m"
    assert guard.label("up", "m") == "m"
    assert guard.label("other-upstream", "m") == "unknown"


def test_an_alias_has_the_label_of_what_answered_last() -> None:
    guard, _ = models()
    guard.learn("up", "latest", "m-1")
    assert (guard.label("up", "latest"), guard.name("up", "latest")) == ("m-1", "m-1")
    guard.learn("up", "latest", "m-2")
    assert guard.label("up", "latest") == "m-2"
    assert guard.label("up", "m-1") == "m-1"


def test_past_the_cap_a_new_name_is_other_and_is_counted_once() -> None:
    guard, overflows = models(2)
    labels = [guard.learn("up", name, name) for name in ("a", "b", "c", "c", "a")]
    assert labels == ["a", "b", "other", "other", "a"]
    assert len(overflows) == 1
    assert guard.label("up", "c") == "other"
    assert guard.name("up", "c") == "c"


def test_the_cap_is_on_label_values_over_all_upstreams() -> None:
    guard, overflows = models(1)
    assert guard.learn("up", "a", "a") == "a"
    assert guard.learn("other-upstream", "a", "a") == "a"
    assert not overflows


def test_an_answer_to_no_name_by_no_name_stays_unknown() -> None:
    guard, _ = models()
    assert guard.learn("up", "", "") == "unknown"
    assert guard.label("up", "") == "unknown"


def test_invented_aliases_are_forgotten_but_names_in_use_are_not() -> None:
    guard, _ = models(2)
    for number in range(1000):
        guard.learn("up", f"invented-{number}", "m")
    assert guard.label("up", "invented-0") == "unknown"
    assert guard.label("up", "invented-999") == "m"
    assert guard.label("up", "m") == "m"


def test_every_outcome_has_usual_codes() -> None:
    assert set(USUAL_CODES) == set(Outcome)
