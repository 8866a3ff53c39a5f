"""Audio: transcripts are text, speech is output that is no text."""

from typing import Any

import pytest

from proxy.formats.audio import call, event
from proxy.formats.event import Call, Event, Usage

from .recordings import events, last_usage

TRANSCRIPTIONS = "/v1/audio/transcriptions"


def test_a_transcripts_deltas_are_output_and_its_end_repeats_them() -> None:
    assert event({"type": "transcript.text.delta", "delta": "abc"}, "") == Event(visible=3)
    assert event({"delta": ""}, "transcript.text.delta") == Event()
    assert event({"type": "transcript.text.done", "text": "abc"}, "") == Event(
        visible=3, whole=True, finished=1, end=True
    )


def test_a_segment_repeats_what_came_in_deltas() -> None:
    assert event({"type": "transcript.text.segment", "id": "s", "speaker": "A"}, "") is None


def test_speech_is_output_without_characters() -> None:
    assert event({"type": "speech.audio.delta", "audio": "UklGRg=="}, "") == Event(visible=1)
    assert event({"type": "speech.audio.delta", "audio": ""}, "") == Event()


def test_seconds_are_not_tokens() -> None:
    found = event({"text": "abc", "usage": {"type": "duration", "seconds": 3}}, "")
    assert found == Event(visible=3, whole=True, finished=1, end=True)


def test_an_error_is_an_error() -> None:
    assert event({"type": "error", "error": {"message": "x"}}, "") == Event(error=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Call("audio")),  # a form
        ({"model": "m", "input": "abc"}, Call("audio", "m", prompt_characters=3)),
        ({"stream_format": "sse"}, Call("audio", stream=True)),
    ],
)
def test_what_a_request_asks_for(body: dict[str, Any], expected: Call) -> None:
    assert call(body, "/v1/audio/speech") == expected


def test_recorded_transcription_stream() -> None:
    found = events("audio-transcription-stream.txt", TRANSCRIPTIONS)
    assert [(one.visible, one.tokens, one.whole) for one in found] == [
        (7, 2, False),
        (8, 2, False),
        (15, None, True),
    ]
    assert last_usage(found) == Usage(prompt=14, output=5, total=19)


def test_recorded_transcription_in_the_shape_of_chat() -> None:
    found = events("audio-transcription-vllm.txt", TRANSCRIPTIONS)
    assert [one.visible for one in found] == [3, 4, 3, 0]
    assert last_usage(found).output == 4
    assert (found[-2].finish, found[-1].usage_only) == ("stop", True)


def test_recorded_whole_transcription() -> None:
    (found,) = events("audio-transcription-verbose.txt", TRANSCRIPTIONS)
    assert (found.visible, found.usage) == (15, None)


def test_recorded_speech_stream() -> None:
    found = events("audio-speech-stream.txt", "/v1/audio/speech")
    assert [one.visible for one in found] == [1, 1, 0]
    assert found[-1].usage == Usage(prompt=14, output=101, total=115)
    assert found[-1].end
