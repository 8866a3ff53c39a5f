import json
import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseCompletedEvent

from engine.rig import openai_client

TOOL: Any = {
    "type": "function",
    "name": "look_up",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": False,
}
INPUT: Any = [{"role": "user", "content": [{"type": "input_text", "text": "Good morning"}]}]
PROMPT_TOKENS = math.ceil((len("Be brief.") + len("Good morning")) / 4)
BEGIN = ["response.created", "response.in_progress"]
TEXT_BEGINS = ["response.output_item.added", "response.content_part.added"]
TEXT_ENDS = ["response.content_part.done", "response.output_item.done"]


@pytest.fixture(scope="module")
def plain() -> Iterator[OpenAI]:
    yield from openai_client(answer_tokens=5)


@pytest.fixture(scope="module")
def reasoning() -> Iterator[OpenAI]:
    yield from openai_client(answer_tokens=5, reasoning=3)


def stream(to: OpenAI, **more: Any) -> list[Any]:
    ask: Any = {"model": "sim-8b", "input": INPUT, "instructions": "Be brief.", "stream": True}
    return list(to.responses.create(**(ask | more)))


def kinds(events: list[Any]) -> list[str]:
    return [event.type for event in events]


def test_the_events_of_a_text_come_in_their_order(plain: OpenAI) -> None:
    events = stream(plain)
    text = ["response.output_text.delta"] * 5 + ["response.output_text.done"]
    assert kinds(events) == BEGIN + TEXT_BEGINS + text + TEXT_ENDS + ["response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_last_event_has_the_output_and_the_usage(plain: OpenAI) -> None:
    events = stream(plain)
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent)
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert last.response.output_text == said
    assert last.response.usage is not None
    usage = last.response.usage
    assert (usage.input_tokens, usage.output_tokens) == (PROMPT_TOKENS, 5)
    assert usage.total_tokens == PROMPT_TOKENS + 5
    assert all(event.response.usage is None for event in events[:2])


def test_a_whole_answer_is_the_last_events_response(plain: OpenAI) -> None:
    ask: Any = {"model": "sim-8b", "input": INPUT, "instructions": "Be brief."}
    whole = plain.responses.create(**ask)
    streamed = stream(plain)[-1].response
    assert (whole.status, whole.object) == ("completed", "response")
    assert whole.output_text == streamed.output_text
    assert whole.usage == streamed.usage


def test_a_limit_makes_the_response_incomplete(plain: OpenAI) -> None:
    last = stream(plain, max_output_tokens=2)[-1]
    assert last.type == "response.incomplete"
    assert last.response.status == "incomplete"
    assert last.response.incomplete_details.reason == "max_output_tokens"
    assert last.response.usage.output_tokens == 2


def test_reasoning_is_an_item_of_its_own_before_the_message(reasoning: OpenAI) -> None:
    events = stream(reasoning)
    thoughts = ["response.reasoning_text.delta"] * 3 + ["response.reasoning_text.done"]
    text = ["response.output_text.delta"] * 5 + ["response.output_text.done"]
    assert kinds(events) == (
        BEGIN
        + TEXT_BEGINS
        + thoughts
        + TEXT_ENDS
        + TEXT_BEGINS
        + text
        + TEXT_ENDS
        + ["response.completed"]
    )
    final = events[-1].response
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.usage.output_tokens == 8
    assert final.usage.output_tokens_details.reasoning_tokens == 3
    added = [event for event in events if event.type == "response.output_item.added"]
    assert [event.output_index for event in added] == [0, 1]
    assert len({event.item.id for event in added}) == 2


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look_up"}])
def test_a_demanded_tool_is_called(plain: OpenAI, choice: Any) -> None:
    events = stream(plain, tools=[TOOL], tool_choice=choice)
    arguments = events[-1].response.output[0].arguments
    deltas = [e for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(event.delta for event in deltas) == arguments
    assert list(json.loads(arguments)) == ["place"]
    rest = ["response.function_call_arguments.done", "response.output_item.done"]
    assert kinds(events) == (
        BEGIN
        + ["response.output_item.added"]
        + ["response.function_call_arguments.delta"] * len(deltas)
        + rest
        + ["response.completed"]
    )
    call = events[-1].response.output[0]
    assert (call.type, call.name, call.status) == ("function_call", "look_up", "completed")
    assert events[-1].response.usage.output_tokens == 1 + len(deltas)


def test_a_stream_that_fails_says_so_in_typed_events() -> None:
    seen = set()
    for faulty in openai_client(error_rate=1.0, answer_tokens=4):
        for _ in range(40):
            try:
                stream(faulty)
            except openai.APIStatusError:
                continue
            except openai.APIError as error:
                seen.add(error.message)
    assert "the engine failed in mid-answer (simulated)" in seen


@pytest.mark.parametrize("given", [None, 7, {"role": "user"}])
def test_an_input_that_is_none_is_refused(plain: OpenAI, given: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="input"):
        stream(plain, input=given)
