import pytest

from proxy.labels import MAX_LABEL_CHARACTERS, USUAL_CODES, Models, clean, status
from proxy.outcome import Outcome


def models(most: int = 100) -> tuple[Models, list[str]]:
    overflows: list[str] = []
    return Models(most, lambda: overflows.append("one")), overflows


def test_labels_are_printable_and_bounded() -> None:
    assert clean("org/Model-7B:q4") == "org/Model-7B:q4"
    assert clean(" a\n\x00b ") == "a??b"
    assert clean("日本") == "日本"
    assert len(clean("x" * 5000)) == MAX_LABEL_CHARACTERS
    assert clean("\ud800") == "?"


@pytest.mark.parametrize(
    "codes",
    [
        (101, 200, 201, 202, 204, 206, 302, 304, 307),
        (400, 401, 402, 403, 404, 408, 409, 413, 415, 418, 422, 424, 429, 431, 451, 460, 499),
        (500, 501, 502, 503, 504, 505, 507, 511, 520, 524, 529, 530, 561),
    ],
)
def test_a_status_that_has_a_meaning_is_a_label(codes: tuple[int, ...]) -> None:
    assert [status(code) for code in codes] == [str(code) for code in codes]


@pytest.mark.parametrize(
    ("code", "label"),
    [
        (None, ""),
        (199, "1xx"),
        (299, "2xx"),
        (399, "3xx"),
        (432, "4xx"),
        (590, "5xx"),
        (600, "other"),
        (999, "other"),
        (99, "other"),
        (0, "other"),
    ],
)
def test_a_status_without_a_meaning_is_its_class(code: int | None, label: str) -> None:
    assert status(code) == label


def test_all_statuses_together_are_few_labels() -> None:
    assert len({status(code) for code in range(1000)}) < 100
    assert {code for codes in USUAL_CODES.values() for code in codes if code} <= {
        status(code) for code in range(1000)
    }


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


# What upstreams list, a name that they echo, and whether it is a model of theirs.
ECHOES = [
    (["m"], "m", True),
    (["m"], "invented", False),
    (["m"], "m-finetuned", False),
    ([], "anything", True),  # no list is known
    (["base", "lora-a"], "lora-a", True),  # vLLM lists adapters
    (["llama3:latest"], "llama3", True),  # Ollama
    (["llama3:latest"], "LLAMA3", True),
    (["llama3:latest"], "llama3:latest", True),
    (["llama3:latest"], "llama3:70b", False),
    (["llama3:70b"], "llama3", False),
    (["meta-llama/Llama-3-8B"], "Llama-3-8B", True),  # without its organisation
    (["models/gemini-2.0"], "gemini-2.0", True),
    (["Llama-3-8B"], "evil/Llama-3-8B", False),
    (["openai/*", "m"], "openai/whatever", True),  # a router's pattern: the list is not all
    (["*"], "whatever", True),
    (["日本\n"], "日本\n", True),
]


@pytest.mark.parametrize(("listed", "name", "own"), ECHOES)
def test_an_echo_is_a_label_where_the_upstream_lists_it(
    listed: list[str], name: str, own: bool
) -> None:
    guard, overflows = models()
    guard.lists("up", listed)
    name = clean(name)
    assert guard.learn("up", name, name) == (name if own else "other")
    assert len(overflows) == (not own)


def test_invented_names_leave_room_for_models_that_exist() -> None:
    guard, overflows = models(3)
    guard.lists("up", ["m-1", "m-2"])
    for number in range(100):
        assert guard.learn("up", f"x-{number}", f"x-{number}") == "other"
    assert guard.learn("up", "m-1", "m-1") == "m-1"
    assert guard.learn("up", "m-2", "m-2") == "m-2"
    assert len(overflows) == 100
    assert guard.label("up", "x-99") == "other"


def test_a_name_that_the_upstream_gives_of_its_own_accord_is_one_though_not_listed() -> None:
    guard, overflows = models()
    guard.lists("up", ["gpt-4o"])
    snapshot = "gpt-4o-2024-08-06"
    assert guard.learn("up", "gpt-4o", snapshot) == snapshot
    assert guard.learn("up", snapshot, snapshot) == snapshot  # asked for by that name now
    assert guard.learn("up", "", "unlisted") == "unlisted"
    assert not overflows


def test_a_name_in_other_letters_is_no_name_of_its_own_accord() -> None:
    guard, _ = models()
    guard.lists("up", ["m"])
    assert guard.learn("up", "Invented", "invented") == "other"


def test_a_model_that_is_listed_later_is_a_label_from_then_on() -> None:
    guard, overflows = models()
    guard.lists("up", ["m"])
    assert guard.learn("up", "pulled", "pulled") == "other"
    guard.lists("up", ["m", "pulled"])
    assert guard.learn("up", "pulled", "pulled") == "pulled"
    assert guard.label("up", "pulled") == "pulled"
    guard.lists("up", ["m"])
    assert guard.learn("up", "pulled", "pulled") == "pulled"  # what is shown stays
    assert len(overflows) == 1


def test_a_list_is_about_its_upstream_alone() -> None:
    guard, _ = models()
    guard.lists("up", ["m"])
    assert guard.learn("other-upstream", "mine", "mine") == "mine"
    assert guard.learn("up", "theirs", "theirs") == "other"


def test_an_engine_that_takes_any_name_for_its_one_model_is_labelled_by_that() -> None:
    guard, overflows = models()
    guard.lists("up", ["qwen"], indifferent=True)
    assert guard.learn("up", "default", "default") == "qwen"
    assert guard.label("up", "default") == "qwen"
    assert guard.name("up", "default") == "qwen"
    assert not overflows
    guard.lists("up", ["qwen", "lora"], indifferent=True)
    assert guard.learn("up", "x", "x") == "other"
