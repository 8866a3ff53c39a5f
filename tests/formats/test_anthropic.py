"""Messages: input counted at the start and cached tokens beside it, output at the end."""

from typing import Any

import pytest

from proxy.formats.anthropic import call, event, usage
from proxy.formats.event import Call, Event, Usage

from .recordings import events, last_usage

PATH = "/v1/messages"


def delta(**fields: Any) -> Event | None:
    return event({"type": "content_block_delta", "index": 0, "delta": fields}, "")


def start(**block: Any) -> Event | None:
    return event({"type": "content_block_start", "index": 0, "content_block": block}, "")


def test_text_and_arguments_are_visible_thinking_is_hidden() -> None:
    assert delta(type="text_delta", text="abc") == Event(visible=3)
    assert delta(type="input_json_delta", partial_json='{"a"') == Event(visible=4)
    assert delta(type="thinking_delta", thinking="hm") == Event(hidden=2)
    assert delta(type="compaction_delta", content="in short") == Event(hidden=8)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "signature_delta", "signature": "abc"},
        {"type": "citations_delta", "citation": {"cited_text": "abc"}},
        {"type": "compaction_delta", "content": None, "encrypted_content": "x"},
        {"type": "of a later version", "text": "abc"},
        {"type": ["text_delta"], "text": "abc"},
        {},
    ],
)
def test_empty_deltas_signatures_and_citations_are_not_output(fields: dict[str, Any]) -> None:
    assert delta(**fields) == Event()


def test_a_block_begins_with_nothing_but_a_tools_name() -> None:
    assert start(type="text", text="") == Event()
    assert start(type="thinking", thinking="", signature="") == Event()
    assert start(type="tool_use", id="t", name="look", input={}) == Event(visible=4)
    assert start(type="server_tool_use", id="t", name="search", input={}) == Event(visible=6)


def test_what_a_tool_gave_back_is_not_generated() -> None:
    content = [{"type": "web_search_result", "title": "abc"}]
    assert start(type="web_search_tool_result", content=content) == Event()


def test_encrypted_thinking_is_output_but_not_text() -> None:
    assert start(type="redacted_thinking", data="QUJD") == Event(hidden=1)


def test_the_start_counts_the_input_and_its_output_count_is_a_placeholder() -> None:
    reported = {
        **{"input_tokens": 18, "cache_read_input_tokens": 8831, "cache_creation_input_tokens": 7},
        "output_tokens": 1,
    }
    found = event({"type": "message_start", "message": {"model": "m", "usage": reported}}, "")
    assert found == Event(
        model="m", usage=Usage(prompt=18, cached=8831, cache_written=7, cached_beside=True)
    )


def test_the_end_counts_the_output_and_says_why() -> None:
    payload = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 60, "output_tokens_details": {"thinking_tokens": 44}},
    }
    assert event(payload, "") == Event(
        usage=Usage(output=60, reasoning=44, cached_beside=True), finish="end_turn", finished=1
    )
    assert event({"type": "message_stop"}, "") == Event(end=True)


def test_usage_in_every_event_counts_along() -> None:
    payload = {
        "type": "content_block_delta",
        "delta": {"type": "text_delta", "text": "abc"},
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
    found = event(payload, "")
    assert found is not None
    assert found.so_far == 3


@pytest.mark.parametrize("payload", [{"type": "ping"}, {"type": "content_block_stop"}, {}])
def test_pings_and_block_ends_say_nothing(payload: dict[str, Any]) -> None:
    assert event(payload, "") is None


def test_an_error_event_is_an_error() -> None:
    payload = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    assert event(payload, "error") == Event(error=True)


def test_a_whole_message() -> None:
    payload = {
        **{"type": "message", "model": "m", "stop_reason": "tool_use"},
        "usage": {"input_tokens": 9, "output_tokens": 30},
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "abc"},
            {"type": "tool_use", "name": "look", "input": {"at": "sea"}},
        ],
    }
    assert event(payload, "") == Event(
        visible=3 + 4 + 12,
        hidden=2,
        whole=True,
        usage=Usage(prompt=9, output=30, cached_beside=True),
        model="m",
        finish="tool_use",
        finished=1,
        end=True,
    )


def test_of_a_long_message_the_usage_is_left() -> None:
    found = event({"model": "m", "usage": {"input_tokens": 9, "output_tokens": 30}}, "")
    assert found is not None
    assert found.usage == Usage(prompt=9, output=30, cached_beside=True)


def test_a_usage_of_zeros_is_a_placeholder() -> None:
    assert usage({"input_tokens": 0, "output_tokens": 0}) is None
    assert usage(None) is None


def test_what_a_request_asks_for() -> None:
    body = {
        "model": "m",
        "stream": True,
        "system": [{"text": "ab"}],
        "messages": [{"content": "c"}],
    }
    assert call(body, PATH) == Call("messages", "m", stream=True, prompt_characters=3)


def test_vertex_names_the_model_and_the_stream_in_the_path() -> None:
    found = call({}, "/v1/projects/p/publishers/anthropic/models/claude-x:streamRawPredict")
    assert (found.model, found.stream) == ("claude-x", True)
    assert not call({}, "/v1/publishers/anthropic/models/claude-x:rawPredict").stream


def test_recorded_thinking() -> None:
    found = events("messages-llamacpp-thinking.txt", PATH)
    assert sum(one.hidden for one in found) == 50
    assert sum(one.visible for one in found) == 92
    assert last_usage(found) == Usage(prompt=5, cached=14, output=48, cached_beside=True)
    assert [one.finish for one in found if one.finish] == ["max_tokens"]
    assert found[-1].end


def test_recorded_text() -> None:
    found = events("messages-vllm.txt", PATH)
    assert sum(one.visible for one in found) == 40
    assert last_usage(found).output == 12
    assert not (found[0].visible or found[0].hidden)


def test_recorded_whole_message() -> None:
    (found,) = events("messages-llamacpp-whole.txt", PATH)
    assert (found.visible, found.finish, found.end) == (102, "max_tokens", True)
    assert found.usage == Usage(prompt=5, cached=25, output=24, cached_beside=True)
