import math
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from engine.rig import FAST, running
from proxy.engine import EngineSettings

TOOL: Any = {
    "name": "look_up",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}
ASK: Any = {
    "model": "sim-8b",
    "max_tokens": 100,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Good morning"}]}],
}
PROMPT_TOKENS = math.ceil((len("Be brief.") + len("Good morning")) / 4)


def client(**settings: Any) -> Iterator[Anthropic]:
    with (
        running(EngineSettings(**(FAST | settings))) as url,
        Anthropic(base_url=url, api_key="-", max_retries=0) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def plain() -> Iterator[Anthropic]:
    yield from client(answer_tokens=5)


@pytest.fixture(scope="module")
def reasoning() -> Iterator[Anthropic]:
    yield from client(answer_tokens=5, reasoning=3)


def events(to: Anthropic, **more: Any) -> list[Any]:
    return list(to.messages.create(**(ASK | more), stream=True))


def test_the_events_of_a_text_come_in_their_order(plain: Anthropic) -> None:
    seen = events(plain)
    assert [event.type for event in seen] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 5,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert seen[-2].delta.stop_reason == "end_turn"


def test_output_tokens_count_up_to_the_last_event_that_tells_them(plain: Anthropic) -> None:
    seen = events(plain)
    start, end = seen[0].message.usage, seen[-2].usage
    assert (start.input_tokens, end.input_tokens) == (PROMPT_TOKENS, PROMPT_TOKENS)
    assert start.output_tokens <= end.output_tokens == 5


def test_the_client_puts_the_stream_together_as_the_whole_answer(plain: Anthropic) -> None:
    with plain.messages.stream(**ASK) as stream:
        streamed = stream.get_final_message()
    whole = plain.messages.create(**ASK)
    assert streamed.content[0].type == whole.content[0].type == "text"
    assert streamed.content[0].text == whole.content[0].text
    assert streamed.usage == whole.usage
    assert len(whole.content[0].text.split()) == whole.usage.output_tokens == 5
    assert (whole.type, whole.role, whole.stop_reason) == ("message", "assistant", "end_turn")


def test_a_limit_cuts_the_answer(plain: Anthropic) -> None:
    seen = events(plain, max_tokens=2)
    assert seen[-2].delta.stop_reason == "max_tokens"
    assert seen[-2].usage.output_tokens == 2


def test_reasoning_is_a_signed_block_before_the_text(reasoning: Anthropic) -> None:
    seen = events(reasoning)
    starts = [event for event in seen if event.type == "content_block_start"]
    assert [(one.index, one.content_block.type) for one in starts] == [(0, "thinking"), (1, "text")]
    deltas = [event.delta.type for event in seen if event.type == "content_block_delta"]
    assert deltas == ["thinking_delta"] * 3 + ["signature_delta"] + ["text_delta"] * 5
    assert seen[-2].usage.output_tokens == 8
    whole = reasoning.messages.create(**ASK)
    assert [block.type for block in whole.content] == ["thinking", "text"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "look_up"}])
def test_a_demanded_tool_is_called(plain: Anthropic, choice: Any) -> None:
    with plain.messages.stream(**ASK, tools=[TOOL], tool_choice=choice) as stream:
        streamed = stream.get_final_message()
    whole = plain.messages.create(**ASK, tools=[TOOL], tool_choice=choice)
    for message in (streamed, whole):
        call: Any = message.content[0]
        assert (call.type, call.name, list(call.input)) == ("tool_use", "look_up", ["place"])
        assert message.stop_reason == "tool_use"
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_a_tool_call_that_is_cut_has_no_input_in_a_whole_answer(plain: Anthropic) -> None:
    whole = plain.messages.create(
        **(ASK | {"max_tokens": 3}), tools=[TOOL], tool_choice={"type": "any"}
    )
    assert whole.content[0].type == "tool_use"
    assert whole.content[0].input == {}
    assert whole.stop_reason == "max_tokens"


def test_a_tool_is_not_called_where_that_is_forbidden() -> None:
    for tools in client(tools=True):
        for choice, kind in (("auto", "tool_use"), ("none", "text")):
            asked: Any = {"tools": [TOOL], "tool_choice": {"type": choice}}
            assert tools.messages.create(**ASK, **asked).content[0].type == kind


def test_errors_are_those_that_the_client_knows(plain: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        plain.messages.create(**(ASK | {"model": "other"}))
    assert missing.value.body == {
        "type": "error",
        "error": {
            "type": "not_found_error",
            "message": "The model `other` does not exist. Served here: sim-8b.",
        },
    }
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        plain.messages.create(**(ASK | {"messages": []}))
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        events(plain, max_tokens=None)


def failure(to: Anthropic) -> str:
    """What becomes of a streamed request."""
    try:
        events(to)
    except anthropic.APIStatusError as error:
        return f"{type(error).__name__} {error.status_code}"
    except Exception:  # its class is the transport's matter
        return "connection lost"
    return "none"


def test_errors_by_chance_are_those_that_the_client_knows() -> None:
    for faulty in client(error_rate=1.0, answer_tokens=4):
        seen = {failure(faulty) for _ in range(40)}
    known = {"RateLimitError 429", "InternalServerError 500", "APIStatusError 200"}
    assert seen == known | {"connection lost"}
