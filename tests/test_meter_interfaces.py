"""The same measurements on every interface: written streams at exact times, then recordings."""

from typing import Any

import pytest
from formats.recordings import recording
from formats.test_table import path_of
from playing import EVENTS, LINES, Played, Script, play
from wire import DONE, chunk, line, said, sse


def typed(payload: dict[str, Any], name: str = "") -> bytes:
    """An event whose type stands in it and before it."""
    return sse({"type": name} | payload, name) if name else sse(payload, payload["type"])


def close(played: Played, tokens: float, milliseconds: float) -> bool:
    """Whether the rate is so many tokens in that time."""
    return played.rate == pytest.approx(tokens * 1000 / milliseconds)


# --- Anthropic ------------------------------------------------------------------------------------


def started(**usage: int) -> bytes:
    return typed({"type": "message_start", "message": {"model": "m-1", "usage": usage}})


def block(**block: Any) -> bytes:
    return typed({"type": "content_block_start", "index": 0, "content_block": block})


def delta(kind: str, **delta: str) -> bytes:
    return typed({"type": "content_block_delta", "index": 0, "delta": {"type": kind} | delta})


def stopped(reason: str, **usage: int) -> bytes:
    return typed({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})


STOP = typed({"type": "message_stop"})
PING = typed({"type": "ping"})
MESSAGES = "/v1/messages"


def test_messages() -> None:
    script: Script = [
        (50, started(input_tokens=18, cache_read_input_tokens=8831, output_tokens=1)),
        (51, block(type="text", text="")),
        (60, PING),
        (300, delta("text_delta", text="abc")),
        (400, delta("text_delta", text="def")),
        (401, typed({"type": "content_block_stop", "index": 0})),
        (402, stopped("end_turn", output_tokens=6)),
        (403, STOP),
    ]
    played = play(script, MESSAGES)
    assert (played.ttft, played.ttfv) == (300, 300)
    assert close(played, 3, 100)
    assert played.totals == ("usage", 6, 8849, 8831, None)
    assert (played.meter.finish, played.meter.model, played.meter.ended) == (
        ("end_turn", "m-1", True)
    )


def test_messages_with_thinking_and_a_tool() -> None:
    script: Script = [
        (50, started(input_tokens=10, output_tokens=2)),
        (51, block(type="thinking", thinking="")),
        (200, delta("thinking_delta", thinking="hm")),
        (250, delta("signature_delta", signature="c2lnbmF0dXJl")),
        (300, block(type="tool_use", name="look_up", input={})),
        (310, delta("input_json_delta", partial_json="")),
        (400, delta("input_json_delta", partial_json='{"a":1}')),
        (402, stopped("tool_use", output_tokens=9)),
    ]
    played = play(script, MESSAGES)
    assert (played.ttft, played.ttfv, played.gaps) == (200, 300, [100, 100])
    assert played.meter.ended


def test_messages_that_break_off_have_no_count_but_an_estimate() -> None:
    script = [(50, started(input_tokens=10, output_tokens=1)), (100, delta("text_delta", text="a"))]
    script += [(200, delta("text_delta", text="b")), (300, delta("text_delta", text="c"))]
    played = play(script, MESSAGES, ends=False)
    assert played.totals == ("estimate", 3, 10, None, None)
    assert not played.meter.ended


def test_an_error_in_messages() -> None:
    error = typed({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})
    assert play([(100, delta("text_delta", text="a")), (200, error)], MESSAGES).meter.error


# --- OpenAI's responses ---------------------------------------------------------------------------

RESPONSE = {"object": "response", "model": "m-1", "status": "in_progress", "output": []}


def test_responses() -> None:
    usage = {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 13}
    text = {"type": "message", "content": [{"type": "output_text", "text": "abcdef"}]}
    done = RESPONSE | {"status": "completed", "usage": usage, "output": [text]}
    script: Script = [
        (20, typed({"type": "response.created", "response": RESPONSE})),
        (25, typed({"type": "response.in_progress", "response": RESPONSE})),
        (200, typed({"type": "response.output_item.added", "item": {"type": "message"}})),
        (300, typed({"type": "response.output_text.delta", "delta": "abc"})),
        (400, typed({"type": "response.output_text.delta", "delta": "def"})),
        (500, typed({"type": "response.output_text.done", "text": "abcdef"})),
        (600, typed({"type": "response.output_item.done", "item": text})),
        (700, typed({"type": "response.completed", "response": done})),
    ]
    played = play(script, "/v1/responses")
    assert (played.ttft, played.gaps, played.meter.output.characters) == (300, [100], 6)
    assert close(played, 1, 100)
    assert played.totals == ("usage", 2, 11, 4, 0)
    assert (played.meter.finish, played.meter.ended) == ("stop", True)


def test_a_failed_response_is_an_error() -> None:
    failed = RESPONSE | {"status": "failed", "error": {"code": "server_error"}}
    assert play(
        [(100, typed({"type": "response.failed", "response": failed}))], "/v1/responses"
    ).meter.error


# --- Ollama ---------------------------------------------------------------------------------------


def test_ollama_streams_lines_unless_asked_not_to() -> None:
    def message(**message: str) -> bytes:
        said = {"role": "assistant", "content": ""} | message
        return line({"model": "m-1", "message": said, "done": False})

    end = {"model": "m-1", "message": {"content": ""}, "done": True, "done_reason": "stop"}
    end |= {"prompt_eval_count": 26, "eval_count": 3, "eval_duration": 200000000}
    script: Script = [
        (200, message(thinking="hm")),
        (300, message(content="ab")),
        (400, message(content="cd")),
        (401, line(end)),
    ]
    played = play(script, "/api/chat", {}, kind=LINES)
    assert (played.ttft, played.ttfv, played.meter.stream) == (200, 300, True)
    assert close(played, 2, 200)
    assert played.totals == ("usage", 3, 26, None, None)
    assert played.meter.engine["decode_tokens_per_second"] == pytest.approx(15)
    assert (played.meter.finish, played.meter.ended) == ("stop", True)


@pytest.mark.parametrize("tiny", [1e-318, 1e-300, 1e-9, 0])
def test_a_duration_of_nearly_nothing_gives_no_rate(tiny: float) -> None:
    end = {"message": {"content": "ab"}, "done": True, "done_reason": "stop", "eval_count": 7}
    end |= {"prompt_eval_count": 26, "eval_duration": tiny, "prompt_eval_duration": tiny}
    played = play([(200, line(end | {"total_duration": 5e9}))], "/api/chat", {}, kind=LINES)
    assert played.totals.output == 7
    assert set(played.meter.engine) <= {"total_seconds", "decode_seconds", "prompt_seconds"}
    metrics = {"queue_time_ms": 1, "mean_itl_ms": tiny}
    played = play([(200, said("a") + sse(chunk({}, "stop", metrics=metrics)) + DONE)])
    assert played.meter.engine == {"queue_seconds": 1e-3}


def test_an_error_line_of_ollama() -> None:
    script = [(100, line({"response": "ab"})), (200, line({"error": "model runner has stopped"}))]
    played = play(script, "/api/generate", {}, kind=LINES)
    assert (played.ttft, played.meter.error, played.meter.ended) == (100, True, False)


# --- llama.cpp, TGI, SGLang, Gemini, Cohere ------------------------------------------------------


def test_llamacpp_counts_the_tokens_of_each_event() -> None:
    timings = {"cache_n": 0, "prompt_n": 9, "predicted_n": 3, "predicted_ms": 100.0}
    end = {"content": "", "tokens": [], "stop": True, "stop_type": "eos", "model": "m-1"}
    end |= {"tokens_predicted": 3, "tokens_evaluated": 9, "timings": timings}
    script: Script = [
        (50, sse({"content": "", "tokens": [0], "tokens_predicted": 0, "stop": False})),
        (200, sse({"content": "ab", "tokens": [5], "tokens_predicted": 1, "stop": False})),
        (300, sse({"content": "cd", "tokens": [6, 7], "tokens_predicted": 3, "stop": False})),
        (301, sse(end)),
    ]
    played = play(script, "/completion", {"prompt": "x", "stream": True})
    assert (played.ttft, played.meter.ended, played.meter.finish) == (200, True, "stop")
    assert close(played, 2, 100)
    assert played.totals == ("usage", 3, 9, 0, None)
    assert play(script[:3], "/completion", {"prompt": "x"}, ends=False).totals[:2] == ("stream", 3)


def test_llamacpp_counts_without_token_ids_too() -> None:
    counted = [(200.0, sse({"content": "ab", "tokens_predicted": 2}))]
    counted.append((300.0, sse({"content": "cd", "tokens_predicted": 7})))
    played = play(counted, "/completion", {"prompt": "x", "stream": True}, ends=False)
    assert played.totals[:2] == ("stream", 7)
    assert close(played, 5, 100)


def test_tgi_repeats_the_text_in_its_last_event() -> None:
    def token(id: int, text: str, **end: Any) -> bytes:
        token = {"id": id, "text": text, "special": text == "</s>"}
        return sse({"token": token, "generated_text": None, "details": None} | end)

    details = {"finish_reason": "length", "generated_tokens": 3, "input_length": 8}
    texts = [(200.0, token(1, "ab")), (300.0, token(2, "cd"))]
    script = [*texts, (400.0, token(3, "ef", generated_text="abcdef", details=details))]
    played = play(script, "/generate_stream", {"inputs": "x"})
    assert (played.ttft, played.meter.output.characters, played.meter.ended) == (200, 6, True)
    assert close(played, 2, 200)
    assert played.totals == ("usage", 3, 8, None, None)
    script = [*texts, (400.0, token(3, "</s>", generated_text="abcd"))]
    played = play(script, "/generate_stream", {"inputs": "x"})
    assert (played.gaps, played.totals[:2]) == ([100], ("stream", 3))


def test_gemini_counts_thoughts_beside() -> None:
    def event(text: str, counts: dict[str, int], **candidate: Any) -> bytes:
        candidate |= {"content": {"parts": [{"text": text}], "role": "model"}}
        payload = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m-1"}
        return sse(payload, end="\r\n")

    counts = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    more = {"candidatesTokenCount": 10, "thoughtsTokenCount": 5, "totalTokenCount": 24}
    script = [
        (300, event("abcd", counts)),
        (500, event("efgh", counts | more, finishReason="STOP")),
    ]
    played = play(script, "/v1beta/models/m-1:streamGenerateContent", {})
    assert played.totals == ("usage", 15, 9, None, 5)
    assert close(played, 11, 200)
    assert (played.meter.stream, played.meter.ended, played.meter.finish) == (True, True, "STOP")


def test_sglang_gives_the_whole_text_so_far() -> None:
    def event(text: str, tokens: int, finish: Any = None) -> bytes:
        meta = {"prompt_tokens": 6, "completion_tokens": tokens, "cached_tokens": 2}
        return sse({"text": text, "meta_info": meta | {"finish_reason": finish}})

    script = [(200, event("ab", 1)), (400, event("abcd", 3, {"type": "stop"})), (401, DONE)]
    played = play(script, "/generate", {"text": "x", "stream": True})
    assert close(played, 2, 200)
    assert played.totals == ("usage", 3, 6, 2, None)
    assert played.meter.output.characters == 4


def test_cohere_bills_other_tokens_than_it_makes() -> None:
    usage = {"billed_units": {"input_tokens": 8, "output_tokens": 1}}
    usage |= {"tokens": {"input_tokens": 1394, "output_tokens": 5}}
    script: Script = [
        (50, typed({"type": "message-start"})),
        (60, typed({"type": "content-start", "delta": {"message": {"content": {"text": ""}}}})),
        (200, typed({"type": "content-delta", "delta": {"message": {"content": {"text": "ab"}}}})),
        (300, typed({"type": "content-delta", "delta": {"message": {"content": {"text": "cd"}}}})),
        (
            400,
            typed({"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}),
        ),
    ]
    played = play(script, "/v2/chat")
    assert (played.ttft, played.gaps) == (200, [100])
    assert played.totals == ("usage", 5, 1394, None, None)
    assert (played.meter.ended, played.meter.finish) == (True, "COMPLETE")


# --- recordings -----------------------------------------------------------------------------------

TWO = {"stream": True, "n": 2}
PROMPTS = {"stream": True, "prompt": ["The sea", "The sun"]}


@pytest.mark.parametrize(
    ("name", "asked", "totals", "finish"),
    [
        ("chat-llamacpp-no-usage", {}, ("engine", 24, 30, 0, None), "length"),
        ("chat-llamacpp-usage", {}, ("usage", 24, 30, 25, None), "length"),
        ("chat-llamacpp-reasoning", {}, ("usage", 48, 19, 0, None), "length"),
        ("chat-llamacpp-tool-call", {}, ("usage", 64, 278, 273, None), "length"),
        ("chat-transformers-usage", {}, ("usage", 12, 21, None, None), "length"),
        ("chat-vllm-logprobs", {}, ("usage", 4, 21, 0, None), "length"),
        ("chat-vllm-two-choices", TWO, ("usage", 12, 21, 0, None), "length"),
        ("chat-vllm-usage-in-every-chunk", {}, ("usage", 6, 21, 0, None), "length"),
        ("completions-llamacpp-two-prompts", PROMPTS, ("usage", 16, 4, 1, None), "length"),
        ("completions-vllm-two-prompts", PROMPTS | {"n": 2}, ("usage", 16, 9, 0, None), "length"),
        ("completions-vllm-echo", {"echo": True, "prompt": ""}, ("usage", 4, 4, 0, None), "length"),
        ("gemini-stream-array", {}, ("usage", 68, 9, 4, 56), "STOP"),
        ("llamacpp-completion", {}, ("usage", 16, 4, 1, None), "length"),
        ("messages-llamacpp-thinking", {}, ("usage", 48, 19, 14, None), "max_tokens"),
        ("messages-vllm", {}, ("usage", 12, 21, 0, None), "max_tokens"),
        ("responses-vllm", {}, ("usage", 12, 21, 0, 0), "length"),
        ("tgi-root-whole", {"inputs": "The"}, ("usage", 3, 2, None, None), "length"),
        ("sglang-generate-batch-whole", {"text": ["a", "b"]}, ("usage", 4, 12, 5, None), "length"),
    ],
)
def test_recorded_counts(name: str, asked: Any, totals: tuple[Any, ...], finish: str) -> None:
    found = recording(f"{name}.txt")
    played = play([(100, found.body)], path_of(name), asked, kind=found.content_type)
    assert played.totals == totals
    assert (played.meter.finish, played.meter.ended, played.meter.error) == (finish, True, False)
    assert (played.ttft == 100) == found.content_type.startswith(EVENTS)


def test_elements_of_a_whole_answer_are_all_output() -> None:
    found = recording("sglang-generate-batch-whole.txt")
    played = play([(100, found.body)], "/generate", {"text": ["a", "b"]}, kind=found.content_type)
    assert played.meter.output.characters == len("The sea") + len("A ship")


def test_embeddings_have_a_prompt_and_no_output() -> None:
    found = recording("embeddings-vllm-pooling.txt")
    played = play([(100, found.body)], "/pooling", {}, kind=found.content_type)
    assert played.totals == ("none", None, 4, None, None)
