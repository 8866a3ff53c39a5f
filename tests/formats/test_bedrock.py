"""Bedrock: converse by the names of its frames, invoke in each provider's own shape."""

import base64
from typing import Any

import orjson
import pytest

from proxy.formats.bedrock import call, converse_event, invoke_event
from proxy.formats.event import Call, Event, Usage

from .recordings import engine, events, last_usage

CONVERSE = "/model/acme.tiny-v1:0/converse-stream"
INVOKE = "/model/acme.tiny-v1:0/invoke-with-response-stream"


@pytest.mark.parametrize(
    ("name", "payload", "visible", "hidden"),
    [
        ("contentBlockDelta", {"delta": {"text": "abc"}}, 3, 0),
        ("contentBlockDelta", {"delta": {"reasoningContent": {"text": "hm"}}}, 0, 2),
        ("contentBlockDelta", {"delta": {"reasoningContent": {"signature": "x"}}}, 0, 0),
        ("contentBlockDelta", {"delta": {"reasoningContent": {"redactedContent": "x"}}}, 0, 1),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": "{}"}}}, 2, 0),
        ("contentBlockStart", {"start": {"toolUse": {"name": "look", "toolUseId": "t"}}}, 4, 0),
    ],
)
def test_what_each_block_of_converse_is(
    name: str, payload: dict[str, Any], visible: int, hidden: int
) -> None:
    assert converse_event(payload, name) == Event(visible=visible, hidden=hidden)


@pytest.mark.parametrize("name", ["messageStart", "contentBlockStop", "ofALaterVersion", ""])
def test_frames_of_lifecycle_say_nothing(name: str) -> None:
    assert converse_event({"role": "assistant", "p": "abc"}, name) is None


def test_converse_counts_cached_tokens_beside_the_input() -> None:
    usage = {
        **{"inputTokens": 4, "outputTokens": 50, "totalTokens": 1354},
        **{"cacheReadInputTokens": 1300, "cacheWriteInputTokens": 0},
    }
    assert converse_event({"usage": usage, "metrics": {"latencyMs": 2281}}, "metadata") == Event(
        usage=Usage(prompt=4, cached=1300, cache_written=0, output=50, cached_beside=True),
        engine={"total_seconds": 2281 * 1e-3},
        end=True,
    )


def test_an_exception_in_a_frame_is_an_error_inside_a_200() -> None:
    assert converse_event({"message": "slow down"}, "error") == Event(error=True)
    assert invoke_event({"message": "slow down"}, "error") == Event(error=True)


def wrapped(payload: Any) -> dict[str, Any]:
    return {"bytes": base64.b64encode(orjson.dumps(payload)).decode(), "p": "abcdef"}


@pytest.mark.parametrize(
    ("payload", "visible"),
    [
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "abc"}}, 3),
        ({"choices": [{"index": 0, "delta": {"content": "abc"}}]}, 3),  # OpenAI's open models
        ({"contentBlockDelta": {"delta": {"text": "abc"}, "contentBlockIndex": 0}}, 3),  # Nova
        ({"generation": "abc", "generation_token_count": 2}, 3),  # Meta
        ({"outputText": "abc", "index": 0}, 3),  # Titan
        ({"outputs": [{"text": "abc", "stop_reason": None}]}, 3),  # Mistral
        ({"text": "abc", "is_finished": False}, 3),  # Cohere
        ({"messageStart": {"role": "assistant"}}, 0),
        ({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}, 0),
        ([1], 0),
    ],
)
def test_invoke_speaks_as_each_provider(payload: Any, visible: int) -> None:
    found = invoke_event(wrapped(payload), "chunk")
    assert found is not None
    assert found.visible == visible


@pytest.mark.parametrize("encoded", ["", "?", "QUJD", base64.b64encode(b"{").decode()])
def test_bytes_that_are_not_json_say_nothing(encoded: str) -> None:
    assert invoke_event({"bytes": encoded}, "chunk") == Event()


def test_invokes_own_counts_win_over_the_providers() -> None:
    metrics = {
        **{"inputTokenCount": 11, "outputTokenCount": 8, "invocationLatency": 600},
        **{"firstByteLatency": 250, "cacheReadInputTokenCount": 100},
    }
    payload = {"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}
    assert invoke_event(wrapped(payload), "chunk") == Event(
        usage=Usage(prompt=11, cached=100, output=8, cached_beside=True),
        engine={"ttft_seconds": 0.25, "total_seconds": 0.6},
        end=True,
    )


def test_metas_counts_go_along_and_titans_come_at_the_end() -> None:
    found = invoke_event(
        {"generation": "abc", "prompt_token_count": 9, "generation_token_count": 2}, ""
    )
    assert found == Event(visible=3, so_far=2, usage=Usage(prompt=9, output=2))
    titan = {
        "inputTextTokenCount": 9,
        "results": [{"outputText": "abc", "completionReason": "LENGTH"}],
    }
    assert invoke_event(titan, "") == Event(
        visible=3, usage=Usage(prompt=9), finish="LENGTH", finished=1
    )


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        (CONVERSE, "acme.tiny-v1:0", True),
        (INVOKE, "acme.tiny-v1:0", True),
        ("/model/acme.tiny-v1%3A0/converse", "acme.tiny-v1:0", False),
        ("/model/arn:aws:bedrock:eu:1:inference-profile/x/invoke", None, False),
    ],
)
def test_the_path_says_which_model_and_whether_to_stream(
    path: str, model: str | None, stream: bool
) -> None:
    found = call({"messages": [{"content": [{"text": "abc"}]}]}, path)
    expected = model or "arn:aws:bedrock:eu:1:inference-profile/x"
    assert found == Call("bedrock", expected, stream=stream, prompt_characters=3)


def test_recorded_converse_stream() -> None:
    found = events("bedrock-converse-stream.bin", CONVERSE)
    assert sum(one.visible for one in found) == 15 + 4 + 12
    assert sum(one.hidden for one in found) == 9
    assert last_usage(found) == Usage(
        prompt=51, cached=100, cache_written=0, output=24, cached_beside=True
    )
    assert engine(found) == {"total_seconds": 0.84}
    assert [one.finish for one in found if one.finish] == ["tool_use"]
    assert found[-1].end


def test_recorded_exception() -> None:
    found = events("bedrock-converse-stream-exception.bin", CONVERSE)
    assert [one.error for one in found] == [False, False, False, True]


def test_recorded_whole_converse() -> None:
    (found,) = events("bedrock-converse-whole.txt", "/model/m/converse")
    assert (found.visible, found.hidden, found.finish, found.end) == (4, 2, "end_turn", True)


@pytest.mark.parametrize(
    ("name", "visible", "usage", "finish"),
    [
        ("bedrock-invoke-anthropic.bin", [0, 0, 7, 8, 0, 0], (11, 8), "end_turn"),
        ("bedrock-invoke-llama.bin", [7, 8, 0], (11, 5), "stop"),
    ],
)
def test_recorded_invoke_streams(
    name: str, visible: list[int], usage: tuple[int, int], finish: str
) -> None:
    found = events(name, INVOKE)
    counts = last_usage(found)
    assert [one.visible for one in found][: len(visible)] == visible
    assert (counts.prompt, counts.output) == usage
    assert [one.finish for one in found if one.finish] == [finish]
    assert found[-1].end
