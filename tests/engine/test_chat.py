import json
import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from engine.rig import at_once, openai_client, post
from proxy.engine import EngineSettings, build_app

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["metric", "imperial"]},
                "hourly": {"type": "boolean"},
                "layers": {"type": "array"},
                "options": {"type": "object"},
            },
        },
    },
}
HELLO: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Good morning, you there"}]},
]
PROMPT_TOKENS = math.ceil((9 + 23) / 4)


@pytest.fixture(scope="module")
def plain() -> Iterator[OpenAI]:
    yield from openai_client(answer_tokens=10)


@pytest.fixture(scope="module")
def reasoning() -> Iterator[OpenAI]:
    yield from openai_client(answer_tokens=6, reasoning=4)


def test_a_stream_begins_with_the_role_and_ends_with_a_reason(plain: OpenAI) -> None:
    chunks = list(plain.chat.completions.create(model="sim-8b", messages=HELLO, stream=True))
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.model for chunk in chunks} == {"sim-8b"}
    first, *middle, last = [chunk.choices[0] for chunk in chunks]
    assert (first.delta.role, first.delta.content) == ("assistant", "")
    assert len(middle) == 10
    assert all(choice.delta.content and choice.finish_reason is None for choice in middle)
    assert (last.delta.content, last.finish_reason) == (None, "stop")


def test_usage_comes_only_where_it_is_asked_for(plain: OpenAI) -> None:
    asked = plain.chat.completions.create(
        model="sim-8b", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    *others, last = list(asked)
    assert last.choices == []
    assert last.usage is not None
    counts = (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens)
    assert counts == (PROMPT_TOKENS, 10, PROMPT_TOKENS + 10)
    assert all(chunk.usage is None and chunk.choices for chunk in others)
    declined = plain.chat.completions.create(
        model="sim-8b", messages=HELLO, stream=True, stream_options={"include_usage": False}
    )
    assert all(chunk.usage is None for chunk in declined)


def test_a_whole_answer_says_what_the_stream_says(plain: OpenAI) -> None:
    whole = plain.chat.completions.create(model="sim-8b", messages=HELLO)
    stream = plain.chat.completions.create(model="sim-8b", messages=HELLO, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert whole.object == "chat.completion"
    assert whole.choices[0].message.content == streamed
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == len(streamed.split()) == 10


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_limit_cuts_the_answer(plain: OpenAI, limit: str) -> None:
    bounds: Any = {limit: 3}
    whole = plain.chat.completions.create(model="sim-8b", messages=HELLO, **bounds)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 3
    exact: Any = {limit: 10}
    whole = plain.chat.completions.create(model="sim-8b", messages=HELLO, **exact)
    assert whole.choices[0].finish_reason == "stop"


def test_several_answers_differ_and_are_counted_together(plain: OpenAI) -> None:
    stream = plain.chat.completions.create(
        model="sim-8b", messages=HELLO, n=3, stream=True, stream_options={"include_usage": True}
    )
    texts, finished, usage = ["", "", ""], [], None
    for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            finished += [choice.index] if choice.finish_reason else []
    assert len(set(texts)) == 3
    assert finished == [0, 1, 2]
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (PROMPT_TOKENS, 30)
    whole = plain.chat.completions.create(model="sim-8b", messages=HELLO, n=3)
    assert [choice.message.content for choice in whole.choices] == texts


def test_reasoning_goes_before_the_answer_on_a_channel_of_its_own(reasoning: OpenAI) -> None:
    stream = reasoning.chat.completions.create(
        model="sim-8b", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    channels = []
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        hidden = getattr(choice.delta, "reasoning_content", None)
        channels += ["hidden"] if hidden else ["visible"] if choice.delta.content else []
    assert channels == ["hidden"] * 4 + ["visible"] * 6
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert (usage.completion_tokens, usage.completion_tokens_details.reasoning_tokens) == (10, 4)


def test_a_limit_can_leave_nothing_but_reasoning(reasoning: OpenAI) -> None:
    whole = reasoning.chat.completions.create(model="sim-8b", messages=HELLO, max_tokens=3)
    message = whole.choices[0].message
    assert message.content is None
    assert len(getattr(message, "reasoning_content", "").split()) == 3
    assert whole.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "look_up"}}]
)
def test_a_demanded_tool_is_called(plain: OpenAI, choice: Any) -> None:
    with plain.chat.completions.stream(
        model="sim-8b", messages=HELLO, tools=[WEATHER], tool_choice=choice
    ) as stream:
        fragments = [getattr(event, "arguments_delta", "") for event in stream]
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    assert final.message.content in (None, "")
    assert final.message.tool_calls is not None
    (call,) = final.message.tool_calls
    assert call.id
    assert call.function.name == "look_up"
    pieces = list(filter(None, fragments))
    assert "".join(pieces) == call.function.arguments
    assert len(pieces) == math.ceil(len(call.function.arguments) / 4)
    whole = plain.chat.completions.create(
        model="sim-8b", messages=HELLO, tools=[WEATHER], tool_choice=choice
    )
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 1 + len(pieces)
    assert whole.choices[0].message.tool_calls is not None
    again = whole.choices[0].message.tool_calls[0]
    assert again.type == "function"
    assert again.function.arguments == call.function.arguments
    check_arguments(again.function.arguments)


def check_arguments(text: str) -> None:
    given = json.loads(text)
    assert list(given) == ["place", "days", "unit", "hourly", "layers", "options"]
    assert isinstance(given["place"], str)
    assert isinstance(given["days"], int)
    assert given["unit"] == "metric"
    assert given["hourly"] is True
    assert (given["layers"], given["options"]) == ([], {})


def test_declared_tools_alone_are_not_called(plain: OpenAI) -> None:
    choices: tuple[Any, ...] = ("auto", "none")
    for choice in choices:
        whole = plain.chat.completions.create(
            model="sim-8b", messages=HELLO, tools=[WEATHER], tool_choice=choice
        )
        assert whole.choices[0].message.tool_calls is None


def test_an_engine_set_to_tools_calls_one_unless_that_is_forbidden() -> None:
    for tools in openai_client(tools=True):
        create = tools.chat.completions.create
        for declared, name in (([WEATHER], "look_up"), ([], "get_weather")):
            message = create(model="sim-8b", messages=HELLO, tools=declared).choices[0].message
            assert message.tool_calls is not None
            assert message.tool_calls[0].type == "function"
            assert message.tool_calls[0].function.name == name
        forbidden = create(model="sim-8b", messages=HELLO, tools=[WEATHER], tool_choice="none")
        assert forbidden.choices[0].message.tool_calls is None


def test_models_are_listed_and_others_refused() -> None:
    for several in openai_client(models=("one", "two")):
        assert [model.id for model in several.models.list()] == ["one", "two"]
        assert several.chat.completions.create(model="two", messages=HELLO).model == "two"
        with pytest.raises(openai.NotFoundError, match="one, two") as caught:
            several.chat.completions.create(model="three", messages=HELLO)
        assert caught.value.code == "model_not_found"


def test_an_unknown_path_is_not_found(plain: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="/v1/images/generations"):
        plain.images.generate(prompt="a boat", model="sim-8b")


def failure(to: OpenAI) -> str:
    """What becomes of a streamed request."""
    try:
        list(to.chat.completions.create(model="sim-8b", messages=HELLO, stream=True))
    except openai.APIConnectionError:
        return "connection lost"
    except openai.APIError as error:
        return type(error).__name__
    except Exception:  # older clients leave it to the transport
        return "connection lost"
    return "none"


def test_errors_by_chance_are_those_that_the_client_knows() -> None:
    for faulty in openai_client(error_rate=1.0, answer_tokens=4):
        seen = {failure(faulty) for _ in range(40)}
    assert seen == {"RateLimitError", "InternalServerError", "APIError", "connection lost"}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "messages"),
        ({"model": 7}, "model"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"function": {"name": "other"}}}, "tool_choice"),
        ({"tools": {"name": "look_up"}, "tool_choice": {"function": "look_up"}}, "tool_choice"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(change: dict[str, Any], param: str) -> None:
    body = {"messages": HELLO} | change
    played = at_once(post(build_app(EngineSettings()), "/v1/chat/completions", body))
    assert played.status == 400
    error = played.json["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert param in error["message"]
