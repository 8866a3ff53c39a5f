"""Chat completions and completions, in the dialects of everyone who speaks them."""

from typing import Any

import pytest

from proxy.formats.event import Call, Event, Usage
from proxy.formats.openai import chat_call, chat_event, completions_call, completions_event

from .recordings import engine, events, last_usage

CHAT = "/v1/chat/completions"


def chunk(delta: Any, finish: Any = None, index: int = 0, **extra: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
        **extra,
    }


def chat(delta: Any, finish: Any = None, **extra: Any) -> Event:
    return chat_event(chunk(delta, finish, **extra), "")


# --- what is output -------------------------------------------------------------------------------


def test_a_text_delta_is_visible_output() -> None:
    assert chat({"content": "Hé!"}) == Event(visible=3, model="m")


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "refusal": None, "reasoning_content": ""},
        {"content": None, "reasoning_content": None, "tool_calls": None, "role": None},
        {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
        {},
        None,
        "text",
    ],
)
def test_a_delta_without_text_is_not_output(delta: Any) -> None:
    event = chat(delta)
    assert (event.visible, event.hidden) == (0, 0)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
def test_reasoning_is_hidden_output_under_any_of_its_names(key: str) -> None:
    event = chat({"content": None, key: "We"})
    assert (event.visible, event.hidden) == (0, 2)


def test_the_same_reasoning_under_two_names_counts_once() -> None:
    assert chat({"reasoning": "We", "reasoning_content": "We"}).hidden == 2
    assert chat({"reasoning": "We", "reasoning_content": ""}).hidden == 2


def test_openrouters_reasoning_details_count_only_without_reasoning() -> None:
    details = [
        {"type": "reasoning.text", "text": "We"},
        {"type": "reasoning.encrypted", "data": "x"},
    ]
    assert chat({"content": "", "reasoning": "We", "reasoning_details": details}).hidden == 2
    assert chat({"content": "", "reasoning_details": details}).hidden == 2
    assert chat({"reasoning_details": [{"summary": "abc"}]}).hidden == 3


def test_mistrals_content_is_a_list_of_parts_some_of_them_thinking() -> None:
    event = chat(
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}]},
                {"type": "text", "text": "Hi"},
            ]
        }
    )
    assert (event.visible, event.hidden) == (2, 4)


@pytest.mark.parametrize(
    ("delta", "visible"),
    [
        ({"tool_calls": [{"function": {"name": "look", "arguments": ""}}]}, 4),
        ({"tool_calls": [{"function": {"arguments": '{"at":'}}]}, 6),
        ({"tool_calls": [{"function": {"name": "look", "arguments": {"at": "sea"}}}]}, 16),
        ({"tool_calls": {"function": {"name": "look", "arguments": "{}"}}}, 6),  # TGI
        ({"tool_calls": [{"type": "custom", "custom": {"name": "sql", "input": "x"}}]}, 4),
        ({"function_call": {"name": "look", "arguments": "{}"}}, 6),
        ({"refusal": "No."}, 3),
        ({"audio": {"id": "a", "transcript": "Hello"}}, 5),
        ({"audio": {"id": "a", "data": "UklGRg=="}}, 1),
        ({"content": "", "images": [{"image_url": {"url": "data:image/png;base64,AA"}}]}, 1),
    ],
)
def test_tool_calls_refusals_audio_and_images_are_visible_output(
    delta: dict[str, Any], visible: int
) -> None:
    event = chat(delta)
    assert (event.visible, event.hidden) == (visible, 0)


def test_text_beside_a_tool_call_and_reasoning_is_counted_with_them() -> None:
    event = chat(
        {"content": "ab", "reasoning": "cde", "tool_calls": [{"function": {"name": "look"}}]}
    )
    assert (event.visible, event.hidden) == (6, 3)


def test_azures_filter_frames_are_not_output_and_name_no_model() -> None:
    first = {"choices": [], "created": 0, "id": "", "model": "", "prompt_filter_results": [{}]}
    assert chat_event(first, "") == Event()
    later: dict[str, Any] = {
        "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]
    }
    assert chat_event(later, "") == Event()


def test_a_whole_message_is_whole_and_ends() -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert chat_event(body, "") == Event(
        visible=2, hidden=3, whole=True, finish="stop", finished=1, end=True
    )


def test_a_message_beside_a_delta_is_passed_over() -> None:
    """Perplexity has both: the piece and the text so far."""
    choice = {"index": 0, "delta": {"content": "ab"}, "message": {"content": "whole text, ab"}}
    assert chat_event({"choices": [choice]}, "") == Event(visible=2)
    choice = {"index": 0, "delta": {}, "message": {"content": "whole text, ab"}}
    assert chat_event({"choices": [choice]}, "") == Event()


def test_inceptions_diffusion_replaces_the_whole_text() -> None:
    call = chat_call({"model": "mercury", "diffusing": True, "messages": []}, CHAT)
    assert call.reader is not None
    event = call.reader(chunk({"content": "nxise"}), "")
    assert event is not None
    assert (event.whole, event.visible) == (True, 5)


# --- tokens ---------------------------------------------------------------------------------------


def test_token_ids_and_logprobs_say_how_many_tokens_a_chunk_holds() -> None:
    choice = {"index": 0, "delta": {"content": "ab"}, "token_ids": [1, 2, 3]}
    assert chat_event({"choices": [choice]}, "").tokens == 3
    choice = {"delta": {"content": "ab"}, "logprobs": {"content": [{}, {}], "refusal": None}}
    assert chat_event({"choices": [choice]}, "").tokens == 2
    choice = {"delta": {"content": "ab"}, "logprobs": {"content": [], "refusal": []}}
    assert chat_event({"choices": [choice]}, "").tokens is None


def test_tokens_of_several_choices_in_a_chunk_are_added() -> None:
    choices = [{"text": "a", "logprobs": {"tokens": ["a"]}}, {"text": "bc", "token_ids": [1, 2]}]
    assert completions_event({"choices": choices}, "").tokens == 3


def test_cumulative_usage_counts_up_to_a_chunk_with_output() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    event = chat({"content": "abc"}, usage=usage)
    assert event.so_far == 3
    assert event.usage == Usage(prompt=7, output=3, total=10)
    assert not event.usage_only
    assert chat({}, "stop", usage=usage).so_far is None


def test_reasoning_counted_beside_the_output_is_part_of_what_was_generated_so_far() -> None:
    details = {"reasoning_tokens": 290}
    usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 303}
    event = chat({"content": "4"}, usage=usage | {"completion_tokens_details": details})
    assert event.so_far == 291


def test_a_usage_of_null_or_zeros_is_a_placeholder() -> None:
    assert chat({"content": "a"}, usage=None) == Event(visible=1, model="m")
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert chat({"content": "a"}, usage=zeros) == Event(visible=1, model="m")


def test_usage_alone_is_told_from_usage_beside_choices() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert chat_event({"choices": [], "usage": usage}, "").usage_only
    assert chat_event({"choices": None, "usage": usage}, "").usage_only
    assert not chat_event({"choices": [], "sglext": {"x": 1}}, "").usage_only
    assert not chat({"content": "!"}, "stop", usage=usage).usage_only


@pytest.mark.parametrize("top", [True, False])
def test_groqs_usage_stands_in_x_groq_or_at_the_top_or_both(top: bool) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "queue_time": 0.05}
    extra = {"usage": usage} if top else {}
    event = chat({}, "stop", x_groq={"id": "r", "usage": usage}, **extra)
    assert event.usage == Usage(prompt=5, output=2, total=7)
    assert event.engine == {"queue_seconds": 0.05}


def test_moonshots_usage_can_stand_in_the_choice() -> None:
    usage = {"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32}
    body = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]}
    assert chat_event(body, "").usage == Usage(prompt=19, output=13, total=32)


def test_timings_per_token_count_up_to_a_chunk_with_output() -> None:
    timings = {"cache_n": 0, "prompt_n": 9, "predicted_n": 4}
    assert chat({"content": "ab"}, timings=timings).so_far == 4
    assert chat({}, "stop", timings=timings).so_far is None


def test_a_progress_frame_has_no_figures_yet() -> None:
    progress = {"total": 64, "cache": 0, "processed": 32, "time_ms": 40}
    timings = {"cache_n": 0, "prompt_n": 32, "predicted_n": 0}
    event = chat({"role": "assistant", "content": None}, prompt_progress=progress, timings=timings)
    assert event == Event(model="m")


# --- endings --------------------------------------------------------------------------------------


def test_each_choices_finish_reason_is_counted() -> None:
    event = chat({"content": "!"}, "length", index=2)
    assert (event.finish, event.finished, event.index, event.visible) == ("length", 1, 2, 1)


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"message": "out of memory", "code": 500}},
        {"error": "out of memory", "error_type": "generation"},
        {"object": "error", "message": "out of memory"},
        {"detail": "Not Found"},
        {"choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"code": 502}},
        chunk({}, "error"),
        chunk({}, x_groq={"id": "r", "error": "over capacity"}),
    ],
)
def test_an_error_inside_a_200_is_seen(payload: dict[str, Any]) -> None:
    assert chat_event(payload, "").error
    assert completions_event(payload, "").error


def test_an_event_named_error_is_an_error_whatever_it_holds() -> None:
    assert chat_event({"message": "x"}, "error").error


# --- requests -------------------------------------------------------------------------------------


def test_what_a_chat_request_asks_for() -> None:
    body = {
        **{"model": "m", "stream": True, "n": 3, "stream_options": {"include_usage": True}},
        "messages": [{"role": "user", "content": "hello"}],
    }
    assert chat_call(body, CHAT) == Call(
        "chat",
        "m",
        stream=True,
        asks_usage=True,
        can_ask_usage=True,
        prompt_characters=5,
        choices=3,
    )


def test_azures_path_names_the_model() -> None:
    assert chat_call({}, "/openai/deployments/gpt-x/chat/completions").model == "gpt-x"
    assert chat_call({"model": "m"}, "/openai/deployments/gpt-x/chat/completions").model == "m"


@pytest.mark.parametrize(
    ("options", "can"), [(None, True), ({}, True), ({"x": 1}, True), ([], False), (True, False)]
)
def test_usage_can_be_asked_for_where_the_options_are_an_object(options: Any, can: bool) -> None:
    call = chat_call({"stream": True, "stream_options": options}, CHAT)
    assert (call.can_ask_usage, call.asks_usage) == (can, False)


@pytest.mark.parametrize("stream", [None, False, 1, "true"])
def test_only_true_asks_for_a_stream(stream: Any) -> None:
    assert not chat_call({"stream": stream}, CHAT).stream


@pytest.mark.parametrize(
    ("prompt", "n", "choices", "characters"),
    [
        ("hello", None, 1, 5),
        (["hello", "you"], 2, 4, 8),
        ([1, 2, 3], 2, 2, None),
        ([[1, 2], [3]], 1, 2, None),
        ([], 1, 1, None),
        (None, 0, 1, None),
        (["x"], -3, 1, 1),
    ],
)
def test_choices_are_prompts_times_n(
    prompt: Any, n: Any, choices: int, characters: int | None
) -> None:
    call = completions_call({"prompt": prompt, "n": n}, "/v1/completions")
    assert (call.choices, call.prompt_characters) == (choices, characters)


def test_nothing_reads_an_answer_specially_unless_the_request_says_so() -> None:
    assert chat_call({"messages": [{"role": "user", "content": "x"}]}, CHAT).reader is None
    assert completions_call({"prompt": "x"}, "/v1/completions").reader is None


def test_chat_that_repeats_its_last_message_is_read_without_it() -> None:
    messages = [{"role": "assistant", "content": "I am"}]
    read = chat_call({"echo": True, "messages": messages}, CHAT).reader
    assert read is not None
    found = [read(chunk({"content": text}), "") for text in ("I am", " well")]
    assert [event.visible for event in found if event] == [0, 5]


# --- recordings -----------------------------------------------------------------------------------


def output(found: list[Event]) -> tuple[int, int, int]:
    """Output events, visible characters, hidden characters."""
    said = [event for event in found if event.visible or event.hidden]
    return len(said), sum(e.visible for e in said), sum(e.hidden for e in said)


@pytest.mark.parametrize(
    ("name", "expected", "usage", "finish"),
    [
        ("chat-vllm-usage", (12, 64, 0), (21, 0, 12), "length"),
        ("chat-vllm-logprobs", (4, 24, 0), (21, 0, 4), "length"),
        ("chat-vllm-two-choices", (11, 60, 0), (21, 0, 12), "length"),
        ("chat-vllm-tool-call", (35, 78, 0), (125, 0, 64), "length"),
        ("chat-vllm-whole", (1, 51, 0), (21, 0, 12), "length"),
        ("chat-llamacpp-usage", (24, 84, 0), (30, 25, 24), "length"),
        ("chat-llamacpp-no-usage", (24, 64, 0), (None, None, None), "length"),
        ("chat-llamacpp-reasoning", (39, 31, 24), (19, 0, 48), "length"),
        ("chat-llamacpp-tool-call", (14, 56, 0), (278, 273, 64), "length"),
        ("chat-transformers-usage", (12, 24, 0), (21, None, 12), "length"),
    ],
)
def test_recorded_chats(
    name: str, expected: tuple[int, int, int], usage: tuple[int | None, ...], finish: str
) -> None:
    found = events(f"{name}.txt", CHAT)
    counts = last_usage(found)
    assert output(found) == expected
    assert (counts.prompt, counts.cached, counts.output) == usage
    assert {event.finish for event in found if event.finish} == {finish}
    assert sum(event.usage_only for event in found) == (usage[0] is not None and len(found) > 1) - (
        "transformers" in name
    )


def test_recorded_role_chunks_are_not_output() -> None:
    for name in ("chat-vllm-usage", "chat-llamacpp-usage", "chat-transformers-usage"):
        first, second, *_ = events(f"{name}.txt", CHAT)
        assert not first.visible
        assert second.visible


def test_recorded_usage_in_every_chunk_counts_along() -> None:
    found = events("chat-vllm-usage-in-every-chunk.txt", CHAT)
    assert [event.so_far for event in found if event.visible] == [1, 2, 3, 4, 5, 6]
    found = events("chat-vllm-five-tokens-a-chunk.txt", CHAT)
    assert [event.so_far for event in found if event.visible] == [6, 11, 16, 21, 26, 31, 36]


def test_recorded_timings_count_along_and_progress_is_not_output() -> None:
    found = events("chat-llamacpp-timings-and-progress.txt", CHAT)
    assert [event.so_far for event in found if event.visible] == [1, 2, 3, 4, 5, 6]
    assert [bool(event.visible) for event in found[:5]] == [False, False, False, False, True]


def test_recorded_logprobs_count_tokens() -> None:
    found = events("chat-vllm-logprobs.txt", CHAT)
    assert [event.tokens for event in found if event.visible] == [1, 1, 1, 1]


def test_recorded_timings_give_counts_where_usage_was_not_asked_for() -> None:
    figures = engine(events("chat-llamacpp-no-usage.txt", CHAT))
    assert figures["prompt_tokens"] + figures["cached_prompt_tokens"] == 30
    assert figures["output_tokens"] == 24
    assert figures["decode_tokens_per_second"] == pytest.approx(57.87, abs=0.01)


def test_recorded_choices_are_told_apart() -> None:
    found = events("chat-vllm-two-choices.txt", CHAT)
    assert {event.index for event in found if event.visible} == {0, 1}
    assert sum(event.finished for event in found) == 2


def test_recorded_completions() -> None:
    found = events("completions-vllm-usage.txt", "/v1/completions")
    assert output(found) == (8, 41, 0)
    assert last_usage(found).output == 8
    found = events("completions-llamacpp.txt", "/v1/completions")
    assert output(found) == (16, 93, 0)
    assert found[0].visible, "completions have no role chunk"


def test_recorded_echo_is_not_output() -> None:
    request = {"prompt": "The sea is", "echo": True, "stream": True}
    found = events("completions-vllm-echo.txt", "/v1/completions", request)
    assert [event.visible for event in found] == [7, 5, 9, 9, 0]


def test_recorded_null_payload_is_passed_over_and_each_prompt_counted() -> None:
    found = events("completions-llamacpp-two-prompts.txt", "/v1/completions")
    assert {event.index for event in found if event.visible} == {0, 1}
    assert [event.usage.output for event in found if event.usage] == [8, 8]


def test_a_path_of_completions_can_answer_natively() -> None:
    found = events("llamacpp-completion.txt", "/completions")
    assert output(found) == (16, 62, 0)
    assert last_usage(found).output == 16


@pytest.mark.parametrize("name", ["error-vllm-detail.txt", "error-llamacpp.txt"])
def test_recorded_errors(name: str) -> None:
    assert [event.error for event in events(name, CHAT)] == [True]
