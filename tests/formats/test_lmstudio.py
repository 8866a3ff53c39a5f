"""LM Studio's own chat: what the model wrote, not what its tools gave back."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.lmstudio import call, event

from .recordings import engine, events, last_usage


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"type": "message.delta", "content": "abc"}, Event(visible=3)),
        ({"type": "reasoning.delta", "content": "hm"}, Event(hidden=2)),
        ({"type": "tool_call.start", "tool": "look"}, Event(visible=4)),
        ({"type": "tool_call.arguments", "tool": "look", "arguments": {"a": 1}}, Event(visible=7)),
        ({"type": "chat.start", "model_instance_id": "m"}, Event(model="m")),
        ({"type": "model_load.end", "load_time_seconds": 2}, Event(engine={"load_seconds": 2.0})),
        ({"type": "model_load.end"}, Event()),
        ({"type": "error", "error": {"type": "unknown", "message": "x"}}, Event(error=True)),
    ],
)
def test_what_each_event_tells(payload: dict[str, Any], expected: Event) -> None:
    assert event(payload, "") == expected


@pytest.mark.parametrize(
    "kind",
    [
        *("model_load.start", "model_load.progress", "prompt_processing.progress"),
        *("reasoning.start", "message.end", "tool_call.failure", "of.a.later.version"),
    ],
)
def test_progress_and_boundaries_say_nothing(kind: str) -> None:
    assert event({"type": kind, "progress": 0.5, "content": "abc"}, kind) is None


def test_a_tools_result_is_not_generated_though_it_is_called_output() -> None:
    payload = {"type": "tool_call.success", "tool": "look", "arguments": {}, "output": "a gull"}
    assert event(payload, "tool_call.success") is None


RESULT = {
    "model_instance_id": "m",
    "output": [
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "tool": "look", "arguments": {"a": 1}, "output": "a gull"},
        {"type": "message", "content": "abc"},
    ],
    "stats": {
        **{"input_tokens": 9, "total_output_tokens": 12, "reasoning_output_tokens": 3},
        **{"tokens_per_second": 40.5, "time_to_first_token_seconds": 0.25},
    },
}
WHOLE = Event(
    visible=3 + 4 + 7,
    hidden=2,
    whole=True,
    usage=Usage(prompt=9, output=12, reasoning=3),
    engine={"decode_tokens_per_second": 40.5, "ttft_seconds": 0.25},
    model="m",
    finished=1,
    end=True,
)


def test_the_end_is_the_whole_answer() -> None:
    assert event({"type": "chat.end", "result": RESULT}, "") == WHOLE
    assert event(RESULT, "") == WHOLE


def test_what_a_request_asks_for() -> None:
    body = {"model": "m", "input": "abc", "system_prompt": "de", "stream": True}
    assert call(body, "/api/v1/chat") == Call("chat", "m", stream=True, prompt_characters=5)


def test_recorded_stream() -> None:
    found = events("lmstudio-chat.txt", "/api/v1/chat")
    said = [(one.visible, one.hidden) for one in found if one.visible or one.hidden]
    assert said == [(0, 8), (0, 2), (4, 0), (11, 0), (8, 0), (8, 0), (31, 10)]
    assert last_usage(found) == Usage(prompt=48, output=17, reasoning=4)
    assert engine(found)["load_seconds"] == 1.5
    assert [one.end for one in found] == [False] * (len(found) - 1) + [True]
