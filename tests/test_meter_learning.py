"""What counted streams teach about a model, for those without a count."""

from typing import Any

from playing import ASK, play
from wire import completion, counts, reasoned, said, sse, used

from proxy.tokens import Learned


def learning(script: Any, asked: dict[str, Any] = ASK, **more: Any) -> Learned:
    learned = Learned()
    played = play(script, asked=asked, learned=learned, **more)
    played.meter.learn(played.totals)
    return learned


TAUGHT = [(100, said("abcd")), (200, said("efgh")), (201, used(30, 16))]


def test_a_counted_stream_teaches_tokens_per_character() -> None:
    learned = learning(TAUGHT)
    assert learned.output(100, 3) == 200
    assert play([(100, said("abc"))], learned=learned).totals == ("estimate", 6, None, None, None)


def test_a_counted_prompt_teaches_tokens_per_character() -> None:
    assert learning(TAUGHT).prompt(10) == 60  # "hello" was 30 tokens


def test_an_estimate_teaches_nothing() -> None:
    assert learning(TAUGHT[:2]).output(100, 3) == 3


def test_reasoning_that_was_not_sent_teaches_nothing() -> None:
    script = [(100, said("abcd")), (202, reasoned(12, 291, 290, 303))]
    assert learning(script).output(100, 3) == 3


def test_a_stream_with_unreadable_events_teaches_nothing() -> None:
    assert learning([(50, sse("{oops")), *TAUGHT]).output(100, 3) == 3


def test_several_prompts_teach_nothing_about_prompts() -> None:
    asked = {"stream": True, "prompt": ["abcd", "efgh"]}
    script = [(100, completion("ab")), (101, completion("cd", "stop", 1, usage=counts(30, 9)))]
    assert learning(script, asked, path="/v1/completions").prompt(100) == 25


def test_an_answer_that_is_no_stream_teaches_only_its_prompt() -> None:
    whole = {"choices": [{"message": {"content": "abcd"}}], "usage": counts(30, 16)}
    learned = learning([(100, sse(whole)[6:])], kind="application/json")
    assert (learned.output(100, 3), learned.prompt(10)) == (3, 60)
