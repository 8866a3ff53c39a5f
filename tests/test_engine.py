"""The simulated engine is a fair stand-in: the proxy's own readers find in it what is there."""

from typing import Any

import orjson
import pytest
from engine.rig import FAST, Played, at_once, post

from proxy.engine import EngineSettings, build_app
from proxy.formats import interface
from proxy.formats.event import Event
from proxy.framing import framing_of

REASONING, TEXT = 3, 7
HELLO = [{"role": "user", "content": "Good morning"}]
STREAMS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("/v1/chat/completions", "chat", {"stream_options": {"include_usage": True}}, True),
    ("/v1/completions", "completions", {"stream_options": {"include_usage": True}}, False),
    ("/v1/responses", "responses", {}, True),
    ("/v1/messages", "messages", {}, True),
    ("/api/chat", "ollama_chat", {}, True),
    ("/api/generate", "ollama_generate", {}, True),
]


def answer(path: str, stream: bool, **more: Any) -> Played:
    settings = EngineSettings(**FAST, reasoning=REASONING, answer_tokens=TEXT)
    body = {"messages": HELLO, "prompt": "Good morning", "input": HELLO, "max_tokens": 100}
    return at_once(post(build_app(settings), path, body | {"stream": stream} | more))


def events(path: str, played: Played) -> list[Event]:
    framing = framing_of(played.headers["content-type"])
    assert framing is not None
    payloads = [payload for _, write in played.writes for payload in framing.feed(write)]
    payloads += framing.end()
    read = interface(path).event
    found = (
        read(orjson.loads(payload.data), payload.name.decode())
        for payload in payloads
        if payload.data != b"[DONE]"
    )
    return [event for event in found if event is not None]


@pytest.mark.parametrize(("path", "api", "more", "reasons"), STREAMS)
def test_the_meter_reads_every_stream_as_it_was_meant(
    path: str, api: str, more: dict[str, Any], reasons: bool
) -> None:
    seen = events(path, answer(path, stream=True, **more))
    assert interface(path).api == api
    hidden, tokens = (REASONING, REASONING + TEXT) if reasons else (0, TEXT)
    deltas = [event for event in seen if not event.whole and event.visible + event.hidden]
    assert len(deltas) == tokens
    assert sum(event.hidden > 0 for event in deltas) == hidden
    counts = [event.usage for event in seen if event.usage is not None]
    assert (counts[-1].prompt, counts[-1].output) == (3, tokens)
    assert {event.model for event in seen if event.model} == {"sim-8b"}
    assert {event.finish for event in seen if event.finish} <= {"stop", "end_turn"}
    assert not any(event.error for event in seen)


@pytest.mark.parametrize(("path", "api", "more", "reasons"), STREAMS)
def test_the_meter_reads_every_whole_answer_as_it_was_meant(
    path: str, api: str, more: dict[str, Any], reasons: bool
) -> None:
    (whole,) = events(path, answer(path, stream=False))
    streamed = events(path, answer(path, stream=True, **more))
    assert whole.usage is not None
    assert (whole.usage.prompt, whole.usage.output) == (3, TEXT + REASONING * reasons)
    deltas = [event for event in streamed if not event.whole]
    assert whole.visible == sum(event.visible for event in deltas)
    assert whole.hidden == sum(event.hidden for event in deltas)
