"""Length of a prompt: what the model reads, in any interface's words."""

from typing import Any

import pytest

from proxy.formats.prompt import documents, echoed, messages, prompt


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("héé", 3),
        ([{"role": "user", "content": "abc"}], 3),
        ([{"role": "user", "content": [{"type": "text", "text": "ab"}, {"text": "c"}]}], 3),
        ([{"content": [{"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}]}], 0),
        ([{"content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]}], 0),
        # A call and what came back: OpenAI, Anthropic, Responses, Gemini, Converse.
        ([{"tool_calls": [{"function": {"name": "f", "arguments": '{"a":1}'}}]}], 7),
        ([{"role": "tool", "content": "42"}], 2),
        ([{"content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]}], 7),
        ([{"content": [{"type": "tool_result", "content": [{"text": "42"}]}]}], 2),
        ([{"content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}]}], 0),
        ([{"type": "function_call", "arguments": "{}"}], 2),
        ([{"type": "function_call_output", "output": "42"}], 2),
        ([{"role": "user", "parts": [{"text": "ab"}, {"inlineData": {"data": "AAAA"}}]}], 2),
        ([{"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}], 7),
        ([{"content": [{"toolUse": {"name": "f", "input": {"a": 1}}}]}], 7),
        ([{"content": [{"type": "thinking", "thinking": "hm"}]}], 2),
        ([[15496, 995]], 0),
        (None, 0),
    ],
)
def test_messages_of_every_interface(value: Any, length: int) -> None:
    assert messages(value) == length


def test_the_tools_on_offer_are_part_of_the_prompt() -> None:
    body = {"system": "abc", "messages": [{"content": "de"}], "tools": [{"name": "f"}]}
    assert prompt(body, "system", "messages") == 5 + len('[{"name":"f"}]')


def test_a_prompt_without_text_has_no_length() -> None:
    assert prompt({"messages": [{"content": [{"image_url": {"url": "x"}}]}]}, "messages") is None


@pytest.mark.parametrize(
    ("value", "length"),
    [("abc", 3), (["ab", "c"], 3), ([{"text": "ab"}, "c"], 3), ({"text": "ab"}, 2), ([1, 2], 0)],
)
def test_documents_are_texts_or_hold_one(value: Any, length: int) -> None:
    assert documents(value) == length


ASSISTANT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "I am"}]


def test_chat_repeats_the_last_message_where_the_answer_continues_it() -> None:
    assert echoed({"echo": True, "messages": ASSISTANT}) == 4
    assert echoed({"echo": True, "add_generation_prompt": False, "messages": ASSISTANT[:1]}) == 5


def test_chat_repeats_nothing_of_another_role_or_unasked() -> None:
    assert echoed({"echo": True, "messages": ASSISTANT[:1]}) == 0
    assert echoed({"messages": ASSISTANT}) == 0
    assert echoed({"echo": True}) == 0
