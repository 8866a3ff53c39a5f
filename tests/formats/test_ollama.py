"""Ollama's JSON lines: streamed unless asked not to, counts and durations in the last."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.ollama import chat_call, embed_event, event, generate_call

from .recordings import engine, events, last_usage


def line(**fields: Any) -> Event:
    return event({"model": "m", "done": False, **fields}, "")


def test_text_thinking_and_whole_tool_calls_are_output() -> None:
    assert line(message={"role": "assistant", "content": "abc"}) == Event(visible=3, model="m")
    assert line(message={"content": "", "thinking": "hm"}) == Event(hidden=2, model="m")
    assert line(response="abc") == Event(visible=3, model="m")
    assert line(response="", thinking="hm") == Event(hidden=2, model="m")
    tool = {"function": {"name": "look", "arguments": {"at": "sea"}}}
    assert line(message={"content": "", "tool_calls": [tool]}) == Event(visible=16, model="m")


def test_an_empty_line_is_not_output() -> None:
    assert line(message={"role": "assistant", "content": ""}) == Event(model="m")
    assert line(response="") == Event(model="m")


def test_progress_of_an_image_is_not_output_but_the_image_is() -> None:
    assert line(completed=3, total=8) == Event(model="m")
    assert line(image="QUJD") == Event(visible=1, model="m")


def test_logprobs_count_the_tokens_of_a_line() -> None:
    assert line(response="ab", logprobs=[{}, {}]).tokens == 2


def test_the_last_line_counts_and_ends() -> None:
    found = event(
        {
            **{"model": "m", "response": "", "done": True, "done_reason": "length"},
            **{"prompt_eval_count": 26, "eval_count": 259, "eval_duration": 7_000_000_000},
        },
        "",
    )
    assert (found.end, found.finished, found.finish) == (True, 1, "length")
    assert found.usage == Usage(prompt=26, output=259)
    assert found.engine == pytest.approx({"decode_seconds": 7.0, "decode_tokens_per_second": 37.0})


def test_counts_that_the_server_left_out_are_unknown() -> None:
    found = event({"done": True, "done_reason": "load"}, "")
    assert (found.usage, found.engine) == (None, None)
    found = event({"done": True, "eval_count": 3}, "")
    assert found.usage == Usage(output=3)


def test_an_error_line_is_an_error_inside_a_200() -> None:
    assert event({"error": "model runner has stopped"}, "").error
    assert not line(response="a", error=None).error


def test_a_stream_is_the_default() -> None:
    assert chat_call({"model": "m"}, "/api/chat").stream
    assert generate_call({"model": "m", "stream": True}, "/api/generate").stream
    assert not generate_call({"model": "m", "stream": False}, "/api/generate").stream


def test_what_a_request_asks_for() -> None:
    body = {"model": "m", "messages": [{"content": "abc", "images": ["QUJD"]}]}
    assert chat_call(body, "") == Call("ollama_chat", "m", stream=True, prompt_characters=3)
    body = {"model": "m", "prompt": "abc", "system": "de"}
    assert generate_call(body, "") == Call("ollama_generate", "m", stream=True, prompt_characters=5)


def test_embeddings_count_their_prompt() -> None:
    assert embed_event({"model": "m", "prompt_eval_count": 8}, "").usage == Usage(prompt=8)
    assert embed_event({"embedding": [0.1]}, "") == Event()
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    assert embed_event({"usage": usage}, "").usage == Usage(prompt=5, total=5)
    assert embed_event({"error": "no such model"}, "").error


def test_recorded_chat() -> None:
    found = events("ollama-chat-thinking-and-tool.txt", "/api/chat")
    assert [(one.visible, one.hidden) for one in found][:4] == [(0, 4), (0, 4), (0, 1), (4, 0)]
    assert last_usage(found) == Usage(prompt=26, cached=6, output=21)
    assert engine(found)["decode_tokens_per_second"] == 42.0
    assert [one.end for one in found] == [False] * 8 + [True]


def test_recorded_generate() -> None:
    found = events("ollama-generate.txt", "/api/generate")
    assert [one.visible for one in found] == [4, 2, 6, 0]
    assert last_usage(found) == Usage(prompt=9, output=4)
    (whole,) = events("ollama-generate-whole.txt", "/api/generate")
    assert (whole.visible, whole.hidden, whole.end) == (12, 2, True)


def test_recorded_embedding() -> None:
    (found,) = events("ollama-embed.txt", "/api/embed")
    assert found.usage == Usage(prompt=8)
    assert found.engine == pytest.approx({"load_seconds": 0.001, "total_seconds": 0.014})
