"""Time to first token, and to the first output that a user sees."""

from typing import Any

import pytest
from playing import ASK, JSON, T0, play
from wire import (
    DONE,
    called,
    chunk,
    completion,
    counts,
    finished,
    role,
    said,
    sse,
    thought,
    used,
)

from proxy.formats import interface
from proxy.meter import Meter
from proxy.tokens import Learned

END = [(900, finished()), (901, used(9, 2)), (902, DONE)]


def test_the_answer_has_arrived_with_the_read_that_completes_its_first_output() -> None:
    text = said("Hi")
    played = play([(100, text[:30]), (180, text[30:-1]), (250, text[-1:]), *END])
    assert played.ttft == 250


def test_role_only_chunk_is_not_the_first_token() -> None:
    assert play([(50, role()), (300, said("Hi")), *END]).ttft == 300


@pytest.mark.parametrize(
    "nothing",
    [
        b":\n\n",
        b": PROCESSING\n\n",
        b"event: ping\n\n",
        sse("", "ping"),
        sse("null"),
        sse("[]"),
        sse("{}"),
        said(""),
        sse(chunk({"role": "assistant", "content": None})),
        sse(chunk({"content": "", "reasoning_content": "", "tool_calls": [], "refusal": None})),
        sse(chunk({"role": "assistant"}, prompt_progress={"total": 64, "processed": 64})),
        sse({"model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        sse({"model": "m", "choices": [{"index": 0, "content_filter_offsets": {"start": 0}}]}),
        sse({"choices": [], "usage": None}),
        used(9, 0),
        b"id: 7\nretry: 100\n\n",
    ],
)
def test_what_is_generated_by_no_model_is_no_output(nothing: bytes) -> None:
    played = play([(50, nothing), (300, said("Hi")), (400, said("!!")), *END])
    assert (played.ttft, played.gaps, played.skipped) == (300, [100], None)


@pytest.mark.parametrize(
    "output",
    [
        said("a"),
        said(" "),
        said("\n"),
        thought("a"),
        thought("a", "reasoning"),
        called("get_weather"),
        called(arguments="{"),
        sse(chunk({"function_call": {"name": "f", "arguments": ""}})),
        sse(chunk({"refusal": "I"})),
        sse(chunk({"audio": {"data": "UklG"}})),
        sse(chunk({"audio": {"transcript": "a"}})),
        sse(chunk({"content": [{"type": "text", "text": "a"}]})),
        sse(chunk({"content": [{"type": "thinking", "thinking": [{"text": "a"}]}]})),
        sse(chunk({"role": "assistant", "content": "a"}, "stop")),
    ],
)
def test_output_on_any_channel_is_the_first_token(output: bytes) -> None:
    assert play([(50, role()), (120, output), (300, said("b")), *END]).ttft == 120


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_the_first_token_but_is_not_seen(field: str) -> None:
    played = play([(20, role()), (200, thought("We", field)), (600, said("42")), *END])
    assert (played.ttft, played.ttfv) == (200, 600)
    assert played.meter.output.hidden == 2


def test_a_tool_call_is_seen() -> None:
    played = play([(20, role()), (250, called("get_weather")), (280, called("", "{}")), *END])
    assert (played.ttft, played.ttfv) == (250, 250)


def test_reasoning_and_text_in_one_event_are_seen() -> None:
    both = sse(chunk({"reasoning": "We", "content": "42"}))
    played = play([(200, both), *END])
    assert (played.ttft, played.ttfv) == (200, 200)


def test_only_reasoning_is_never_seen() -> None:
    played = play([(200, thought("We")), (300, thought("go")), *END])
    assert (played.ttft, played.ttfv) == (200, None)


def test_hidden_reasoning_has_no_first_token() -> None:
    reasoned = {"completion_tokens_details": {"reasoning_tokens": 100}}
    played = play(
        [(100, role()), (500, finished("length")), (501, used(12, 100, **reasoned)), (501, DONE)]
    )
    assert (played.ttft, played.ttfv, played.skipped) == (None, None, "no_output")
    assert (played.totals.output, played.totals.reasoning) == (100, 100)
    assert played.totals.source == "usage"


def test_completions_have_no_role_chunk() -> None:
    played = play([(70, completion("ab")), (90, completion("", "stop"))], "/v1/completions")
    assert played.ttft == 70


def test_an_echoed_prompt_is_not_the_first_token() -> None:
    asked = {"stream": True, "prompt": "Once", "echo": True}
    script = [(50, completion("Once")), (120, completion(" more")), (200, completion("", "stop"))]
    assert play(script, "/v1/completions", asked).ttft == 120


def test_the_last_event_may_lack_its_blank_line() -> None:
    played = play([(50, role()), (120, said("Hi").rstrip(b"\n"))])
    assert (played.ttft, played.meter.output.events) == (120, 1)


def test_the_line_end_before_the_answers_end_is_enough() -> None:
    """Two reads, of which the end completes the second's event: no third one."""
    played = play([(50, said("a")), (120, said("b") + said("c").rstrip(b"\n"))])
    assert played.gaps == [70]


def test_answers_that_are_not_streams_have_no_first_token() -> None:
    choice = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    whole: dict[str, Any] = {"model": "m", "choices": [choice], "usage": counts(9, 2)}
    played = play([(200, sse(whole)[6:])], asked={"messages": []}, kind=JSON)
    assert (played.ttft, played.ttfv, played.gaps) == (None, None, [])
    assert (played.totals.source, played.totals.output, played.totals.prompt) == ("usage", 2, 9)
    assert (played.meter.stream, played.meter.ended, played.meter.output.characters) == (
        False,
        True,
        2,
    )


def test_a_stream_that_was_not_asked_for_is_one() -> None:
    played = play([(200, said("a")), *END], asked={"messages": []})
    assert (played.meter.stream, played.ttft) == (True, 200)


def test_an_answer_that_should_have_been_a_stream_is_none() -> None:
    played = play([(200, said("a")[6:])], kind="application/json; charset=utf-8")
    assert (played.meter.stream, played.ttft) == (False, None)


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_only_a_2xx_is_read(status: int) -> None:
    played = play([(100, said("a")), *END], status=status)
    assert (played.ttft, played.totals.source, played.meter.readable) == (None, "none", False)
    assert played.meter.chunks == 4


def test_nothing_is_read_of_an_interface_that_is_not_known() -> None:
    played = play([(100, said("a")), *END], "/v1/whatever")
    assert (played.meter.chunks, played.ttft, played.totals.source) == (4, None, "none")


def test_the_model_is_the_first_one_that_the_answer_names() -> None:
    def named(model: str) -> bytes:
        return sse(chunk({"content": "a"}, model=model))

    asked = ASK | {"model": "asked"}
    assert play([(1, named(""))], asked=asked).meter.model == "asked"
    assert play([(1, named("")), (2, named("x")), (3, named("y"))], asked=asked).meter.model == "x"


def test_times_are_unknown_before_the_output() -> None:
    face = interface("/v1/chat/completions")
    meter = Meter(face.call(ASK, ""), face.event, Learned(), T0, 2.0)
    assert (meter.headers_at, meter.ttft, meter.ttfv, meter.readable) == (None, None, None, False)
    assert (meter.stream, meter.ended, meter.progress()) == (True, False, None)
