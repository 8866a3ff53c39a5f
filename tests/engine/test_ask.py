import pytest

from proxy.engine import ask
from proxy.engine.ask import Ask, Function, Refusal

TOOLS = [
    {"type": "function", "function": {"name": "one", "parameters": {"type": "object"}}},
    {"type": "retrieval"},
    {"function": {"name": 7}},
    "two",
]


def test_prompts_are_counted_together_and_the_longest_is_the_context() -> None:
    asked = Ask(None, ("a" * 8, "b" * 5, ""))
    assert (asked.prompt_tokens, asked.context) == (4, 2)


def test_functions_are_read_nested_and_flat_and_other_tools_passed_over() -> None:
    one = Function("one", {"type": "object"})
    assert ask.functions(TOOLS, "function", "parameters") == (one,)
    flat = [{"name": "one", "input_schema": {"type": "object"}}, {"type": "bash"}]
    assert ask.functions(flat, None, "input_schema") == (one,)
    assert ask.functions({"name": "one"}, None, "parameters") == ()


def test_only_declared_functions_can_be_demanded() -> None:
    declared = (Function("one"), Function("two"))
    assert ask.demand(declared, None) == declared
    assert ask.demand(declared, "two") == (Function("two"),)
    with pytest.raises(Refusal, match="three"):
        ask.demand(declared, "three")
    with pytest.raises(Refusal, match="any"):
        ask.demand((), None)


def test_null_is_the_same_as_nothing() -> None:
    body = {"max_tokens": None, "stream": None, "n": None, "model": None}
    assert ask.whole_number(body, "max_tokens") is None
    assert ask.flag(body, "stream", default=True) is True
    assert ask.several(body) == 1
    assert ask.model(body) is None
