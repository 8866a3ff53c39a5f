"""Cohere's chat in both versions: billed units are not the tokens."""

from typing import Any

import pytest

from proxy.formats.cohere import call, event
from proxy.formats.event import Call, Event, Usage

from .recordings import events, last_usage


def message(kind: str, **fields: Any) -> Event | None:
    return event({"type": kind, "index": 0, "delta": {"message": fields}}, kind)


def test_text_and_tool_calls_are_visible_thinking_and_plans_hidden() -> None:
    assert message("content-delta", content={"text": "abc"}) == Event(visible=3)
    assert message("content-delta", content={"thinking": "hm"}) == Event(hidden=2)
    assert message("tool-plan-delta", tool_plan="I will") == Event(hidden=6)
    function = {"name": "look", "arguments": ""}
    assert message("tool-call-start", tool_calls={"function": function}) == Event(visible=4)
    function = {"arguments": "{}"}
    assert message("tool-call-delta", tool_calls={"function": function}) == Event(visible=2)


@pytest.mark.parametrize(
    "kind", ["message-start", "content-end", "tool-call-end", "citation-start", "citation-end", ""]
)
def test_lifecycle_and_citations_are_not_output(kind: str) -> None:
    assert event({"type": kind, "delta": {"message": {"content": {"text": "abc"}}}}, kind) is None
    assert message("content-start", content={"type": "text", "text": ""}) == Event()


def test_the_end_counts_tokens_and_not_billed_units() -> None:
    usage = {
        "billed_units": {"input_tokens": 8, "output_tokens": 50},
        "tokens": {"input_tokens": 1394, "output_tokens": 54},
        "cached_tokens": 1360,
    }
    payload = {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}
    assert event(payload, "") == Event(
        usage=Usage(prompt=1394, cached=1360, output=54), finish="COMPLETE", finished=1, end=True
    )


def test_only_billed_units_are_no_count() -> None:
    usage = {"billed_units": {"input_tokens": 8, "output_tokens": 50}}
    payload = {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}
    found = event(payload, "")
    assert found is not None
    assert found.usage is None


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "x"}},
        {"event_type": "stream-end", "finish_reason": "ERROR_TOXIC", "response": {}},
        {"type": "error", "message": "x"},
    ],
)
def test_an_error_inside_a_200_is_seen(payload: dict[str, Any]) -> None:
    found = event(payload, "")
    assert found is not None
    assert found.error


def test_tool_calls_of_version_1() -> None:
    payload = {"event_type": "tool-calls-chunk", "tool_call_delta": {"name": "look"}}
    assert event(payload, "") == Event(visible=4)
    payload = {"event_type": "tool-calls-chunk", "tool_call_delta": {"parameters": "{}"}}
    assert event(payload, "") == Event(visible=2)
    payload = {"event_type": "tool-calls-chunk", "text": "I will"}
    assert event(payload, "") == Event(hidden=6)
    # The whole calls once more.
    assert event({"event_type": "tool-calls-generation", "tool_calls": [{"name": "x"}]}, "") is None


def test_what_a_request_of_each_version_asks_for() -> None:
    body: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"content": "abc"}]}
    assert call(body, "/v2/chat") == Call("cohere", "m", stream=True, prompt_characters=3)
    body = {"message": "abc", "preamble": "de", "chat_history": [{"role": "USER", "message": "x"}]}
    assert call(body, "/v1/chat").prompt_characters == 5 + len("x")


def test_recorded_version_2() -> None:
    found = events("cohere-v2.txt", "/v2/chat")
    assert [(one.visible, one.hidden) for one in found] == [
        *[(0, 0), (0, 9), (0, 0)],
        *[(7, 0), (8, 0), (0, 0)],
    ]
    assert last_usage(found) == Usage(prompt=139, cached=128, output=9)
    assert found[-1].end


def test_recorded_tools_of_version_2() -> None:
    found = events("cohere-v2-tools.txt", "/v2/chat")
    assert [(one.visible, one.hidden) for one in found] == [(0, 12), (4, 0), (6, 0), (6, 0), (0, 0)]


def test_recorded_version_1() -> None:
    found = events("cohere-v1.txt", "/v1/chat")
    assert [one.visible for one in found] == [7, 8, 0]
    assert last_usage(found) == Usage(prompt=70, output=5)
    assert (found[-1].finish, found[-1].end) == ("COMPLETE", True)


def test_recorded_whole_answer() -> None:
    (found,) = events("cohere-v2-whole.txt", "/v2/chat")
    assert (found.visible, found.hidden, found.whole, found.end) == (4, 2, True, True)
    assert found.usage == Usage(prompt=70, output=3)
