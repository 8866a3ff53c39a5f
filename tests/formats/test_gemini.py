"""Gemini: parts of an answer, counts so far in each event, thoughts beside the candidates."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.gemini import call, embed_call, event

from .recordings import events, last_usage

STREAM = "/v1beta/models/gemini-x:streamGenerateContent"


def parts(*found: dict[str, Any], **fields: Any) -> Event:
    return event({"candidates": [{"content": {"parts": list(found)}}], **fields}, "")


@pytest.mark.parametrize(
    ("part", "visible", "hidden"),
    [
        ({"text": "abc"}, 3, 0),
        ({"text": "hm", "thought": True}, 0, 2),
        ({"text": "", "thoughtSignature": "QUJD"}, 0, 0),
        ({"functionCall": {"name": "look", "args": {"at": "sea"}}}, 16, 0),
        ({"executableCode": {"language": "PYTHON", "code": "1+1"}}, 3, 0),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}, 0, 0),
        ({"inlineData": {"mimeType": "image/png", "data": "QUJD"}}, 1, 0),
        ({}, 0, 0),
    ],
)
def test_what_each_kind_of_part_is(part: dict[str, Any], visible: int, hidden: int) -> None:
    assert parts(part) == Event(visible=visible, hidden=hidden)


def usage(**counts: int) -> Usage | None:
    return event({"usageMetadata": counts}, "").usage


def test_thoughts_are_counted_beside_the_candidates() -> None:
    assert usage(
        promptTokenCount=9, candidatesTokenCount=10, thoughtsTokenCount=256, totalTokenCount=275
    ) == Usage(prompt=9, output=266, reasoning=256)


def test_before_there_is_an_answer_the_thoughts_are_the_output() -> None:
    assert usage(promptTokenCount=9, thoughtsTokenCount=40) == Usage(
        prompt=9, output=40, reasoning=40
    )
    assert usage(promptTokenCount=9) == Usage(prompt=9)


def test_what_tools_brought_is_part_of_the_prompt() -> None:
    found = usage(promptTokenCount=9, toolUsePromptTokenCount=5, cachedContentTokenCount=4)
    assert found == Usage(prompt=14, cached=4)


def test_metadata_without_counts_is_none() -> None:
    assert event({"usageMetadata": {"trafficType": "ON_DEMAND"}}, "").usage is None


def test_counts_with_output_count_along() -> None:
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    assert parts({"text": "abc"}, usageMetadata=counts).so_far == 4
    assert parts({"text": ""}, usageMetadata=counts).so_far is None


def test_why_it_ended() -> None:
    payload = {"candidates": [{"content": {"parts": []}, "finishReason": "MAX_TOKENS"}]}
    assert event(payload, "") == Event(finish="MAX_TOKENS", finished=1)
    blocked = event({"promptFeedback": {"blockReason": "SAFETY"}}, "")
    assert blocked == Event(finish="SAFETY", end=True)


def test_an_error_is_an_error() -> None:
    assert event({"error": {"code": 503, "status": "UNAVAILABLE"}}, "").error


def test_the_path_says_which_model_and_whether_to_stream() -> None:
    body = {
        "contents": [{"role": "user", "parts": [{"text": "abc"}]}],
        "systemInstruction": {"parts": [{"text": "de"}]},
        "generationConfig": {"candidateCount": 2},
    }
    expected = Call("gemini", "gemini-x", stream=True, prompt_characters=5, choices=2)
    assert call(body, STREAM) == expected
    assert not call({}, "/v1beta/models/gemini-x:generateContent").stream


def test_embeddings_alone_and_in_a_batch() -> None:
    one = {"content": {"parts": [{"text": "abc"}]}}
    path = "/v1beta/models/embedder:embedContent"
    assert embed_call(one, path) == Call("embeddings", "embedder", prompt_characters=3)
    assert embed_call({"requests": [one, one]}, path).prompt_characters == 6


@pytest.mark.parametrize("name", ["gemini-stream.txt", "gemini-stream-array.txt"])
def test_recorded_stream_is_the_same_in_both_framings(name: str) -> None:
    found = events(name, STREAM)
    assert [(one.visible, one.hidden) for one in found] == [(0, 18), (8, 0), (23, 0), (0, 0)]
    assert [one.so_far for one in found] == [40, 59, 68, None]
    assert last_usage(found) == Usage(prompt=9, cached=4, output=68, reasoning=56)
    assert found[-1].finish == "STOP"
    assert {one.model for one in found} == {"gemini-2.5-flash"}


def test_recorded_whole_answer() -> None:
    (found,) = events("gemini-whole.txt", "/v1beta/models/gemini-x:generateContent")
    assert (found.visible, found.finish) == (15, "STOP")
    assert found.usage == Usage(prompt=9, output=4)


def test_recorded_embedding_counts_nothing() -> None:
    assert events("gemini-embed.txt", "/v1beta/models/m:embedContent") == [Event()]
