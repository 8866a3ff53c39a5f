from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from engine.rig import FAST, running
from proxy.engine import EngineSettings

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    # Reasoning and tools have no place in this interface and must not leak into it.
    settings = EngineSettings(**FAST, answer_tokens=40, reasoning=5, tools=True)
    with (
        running(settings) as url,
        OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as connected,
    ):
        yield connected


def test_the_first_event_holds_a_token(client: OpenAI) -> None:
    stream = client.completions.create(
        model="sim-8b",
        prompt=PROMPT,
        stream=True,
        max_tokens=50,
        stream_options={"include_usage": True},
    )
    *tokens, finish, usage = list(stream)
    assert len(tokens) == 40
    assert all(chunk.choices[0].text for chunk in tokens)
    assert (finish.choices[0].text, finish.choices[0].finish_reason) == ("", "stop")
    assert usage.choices == []
    assert usage.usage is not None
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens) == (4, 40)


def test_without_a_limit_sixteen_tokens_are_written(client: OpenAI) -> None:
    whole = client.completions.create(model="sim-8b", prompt=PROMPT)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 16
    assert whole.choices[0].finish_reason == "length"


def test_usage_is_not_told_unasked(client: OpenAI) -> None:
    stream = client.completions.create(model="sim-8b", prompt=PROMPT, stream=True)
    assert all(chunk.usage is None and chunk.choices for chunk in stream)


def test_every_prompt_gets_its_answers_by_index(client: OpenAI) -> None:
    prompts = ["Red", "Green", "Blue!"]
    stream = client.completions.create(
        model="sim-8b", prompt=prompts, n=2, max_tokens=5, stream=True
    )
    streamed = [""] * 6
    for chunk in stream:
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    whole = client.completions.create(model="sim-8b", prompt=prompts, n=2, max_tokens=5)
    assert [choice.text for choice in whole.choices] == streamed
    assert len(set(streamed)) == 6
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (1 + 2 + 2, 30)
    alone = client.completions.create(model="sim-8b", prompt="Green", max_tokens=5)
    assert alone.choices[0].text == streamed[2]


def test_an_echo_begins_with_the_prompt_and_is_not_counted(client: OpenAI) -> None:
    ask: Any = {"model": "sim-8b", "prompt": [PROMPT, "The sea"], "max_tokens": 3}
    plain = [choice.text for choice in client.completions.create(**ask).choices]
    echoed = client.completions.create(**ask, echo=True)
    assert [choice.text for choice in echoed.choices] == [PROMPT + plain[0], "The sea" + plain[1]]
    assert echoed.usage.completion_tokens == 6
    streamed = ["", ""]
    for chunk in client.completions.create(**ask, echo=True, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [choice.text for choice in echoed.choices]


def test_token_ids_are_counted_as_tokens(client: OpenAI) -> None:
    prompts: Any = (([1, 22, 333, 70_000], 4), ([[1, 2], [3]], 3))
    for prompt, count in prompts:
        usage = client.completions.create(model="sim-8b", prompt=prompt).usage
        assert usage is not None
        assert usage.prompt_tokens == count


def failure(to: OpenAI) -> str:
    """What becomes of a streamed request."""
    try:
        list(to.completions.create(model="sim-8b", prompt=PROMPT, stream=True))
    except openai.APIStatusError as error:
        return str(error.status_code)
    except openai.APIError as error:
        return error.message
    except Exception:  # older clients leave a lost connection to the transport
        return "Connection error."
    return "none"


def test_a_stream_that_fails_says_so() -> None:
    with (
        running(EngineSettings(**FAST, error_rate=1)) as url,
        OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as faulty,
    ):
        seen = {failure(faulty) for _ in range(40)}
    half_way = "the engine failed in mid-answer (simulated)"
    assert seen == {"429", "500", half_way, "Connection error."}


@pytest.mark.parametrize("prompt", [None, 7, [], ["text", 7], [["text"]], {"text": "x"}])
def test_a_prompt_that_is_none_is_refused(client: OpenAI, prompt: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="prompt"):
        client.completions.create(model="sim-8b", prompt=prompt)
