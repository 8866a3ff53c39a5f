"""Responses: typed events, of which only deltas of generated output count."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.responses import call, event

from .recordings import events, last_usage

PATH = "/v1/responses"


@pytest.mark.parametrize(
    "kind",
    [
        "output_text",
        "refusal",
        "function_call_arguments",
        "custom_tool_call_input",
        "mcp_call_arguments",
        "code_interpreter_call_code",
        "shell_call_command",
        "audio.transcript",
    ],
)
def test_deltas_of_generated_output_are_visible(kind: str) -> None:
    assert event({"type": f"response.{kind}.delta", "delta": "abc"}, "") == Event(visible=3)
    assert event({"delta": "abc"}, f"response.{kind}.delta") == Event(visible=3)


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text"])
def test_deltas_of_reasoning_are_hidden(kind: str) -> None:
    assert event({"type": f"response.{kind}.delta", "delta": "abc"}, "") == Event(hidden=3)


def test_audio_is_output_but_not_text() -> None:
    assert event({"type": "response.audio.delta", "delta": "UklGRg=="}, "") == Event(visible=1)
    assert event({"type": "response.audio.delta", "delta": ""}, "") == Event()


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "response.output_text.done", "text": "abc"},
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_item.done", "item": {"type": "message", "content": []}},
        {"type": "response.shell_call_output_content.delta", "delta": "what the shell said"},
        {"type": "response.web_search_call.searching"},
        {"type": "response.queued", "response": {"status": "queued"}},
        {"type": "keepalive", "sequence_number": 3},
        {"type": ["x"]},
        {},
    ],
)
def test_lifecycle_repetitions_and_tool_results_are_not_output(payload: dict[str, Any]) -> None:
    found = event(payload, "")
    assert found is None or found == Event()


def test_a_tools_name_comes_with_its_item() -> None:
    item = {"type": "function_call", "name": "look", "arguments": ""}
    assert event({"type": "response.output_item.added", "item": item}, "") == Event(visible=4)
    item = {"type": "message", "name": "look"}
    assert event({"type": "response.output_item.added", "item": item}, "") == Event()


def test_logprobs_count_the_tokens_of_a_delta() -> None:
    payload = {"type": "response.output_text.delta", "delta": "abc", "logprobs": [{}, {}]}
    assert event(payload, "") == Event(visible=3, tokens=2)
    assert event(payload | {"logprobs": []}, "") == Event(visible=3)


OUTPUT = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}], "content": []},
    {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
    {"type": "function_call", "name": "look", "arguments": '{"at":"sea"}'},
    {"type": "custom_tool_call", "name": "sql", "input": "select"},
]
USAGE = {
    **{"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
    **{"input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {}},
}


def response(status: str, **extra: Any) -> dict[str, Any]:
    return {"object": "response", "model": "m", "status": status, "output": OUTPUT, **extra}


def test_the_end_has_usage_and_all_of_the_text_once_more() -> None:
    payload = {"type": "response.completed", "response": response("completed", usage=USAGE)}
    assert event(payload, "") == Event(
        visible=2 + 4 + 12 + 3 + 6,
        hidden=2,
        whole=True,
        usage=Usage(prompt=11, cached=4, output=5, total=16),
        model="m",
        finish="stop",
        finished=1,
        end=True,
    )


def test_an_answer_that_was_cut_says_why() -> None:
    cut = response("incomplete", incomplete_details={"reason": "max_output_tokens"})
    for kind in ("response.incomplete", "response.completed"):
        found = event({"type": kind, "response": cut}, "")
        assert found is not None
        assert (found.finish, found.end, found.error) == ("length", True, False)


def test_a_failed_answer_is_an_error() -> None:
    found = event({"type": "response.failed", "response": response("failed")}, "")
    assert found is not None
    assert (found.error, found.end) == (True, True)


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "error", "code": None, "message": "x", "sequence_number": 3},
        {"type": "error", "sequence_number": 2, "error": {"message": "x"}},
        {"error": {"message": "x"}},
    ],
)
def test_error_events_of_both_shapes(payload: dict[str, Any]) -> None:
    assert event(payload, "") == Event(error=True)


def test_an_answer_in_the_background_has_not_ended() -> None:
    assert event(response("queued"), "") == Event(model="m")


def test_what_a_request_asks_for() -> None:
    body = {"model": "m", "stream": True, "instructions": "ab", "input": [{"content": "cde"}]}
    assert call(body, PATH) == Call("responses", "m", stream=True, prompt_characters=5)
    assert call({"input": "abc"}, PATH) == Call("responses", prompt_characters=3)


@pytest.mark.parametrize(
    ("name", "deltas", "visible", "usage", "finish"),
    [
        ("responses-vllm.txt", 11, 49, (21, 0, 12), "length"),
        ("responses-llamacpp.txt", 24, 83, (30, 25, 24), "stop"),
    ],
)
def test_recorded_streams(
    name: str, deltas: int, visible: int, usage: tuple[int, int, int], finish: str
) -> None:
    found = events(name, PATH)
    said = [one for one in found if one.visible and not one.whole]
    counts = last_usage(found)
    assert (len(said), sum(one.visible for one in said)) == (deltas, visible)
    assert (counts.prompt, counts.cached, counts.output) == usage
    assert not found[0].visible
    assert found[-1].end
    assert (found[-1].visible, found[-1].finish) == (visible, finish)


def test_recorded_whole_answer() -> None:
    (found,) = events("responses-llamacpp-whole.txt", PATH)
    assert (found.visible, found.finish, found.end) == (48, "stop", True)
    assert found.usage == Usage(prompt=30, cached=25, output=24, total=54)
