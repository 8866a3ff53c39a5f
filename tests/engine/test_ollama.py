import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import orjson
import pytest

from engine.rig import FAST, Played, at_once, post, running
from proxy.engine import EngineSettings, build_app

HELLO = [{"role": "user", "content": "Good morning"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def client() -> Iterator[ollama.Client]:
    with (
        running(EngineSettings(**FAST, answer_tokens=5, reasoning=3)) as url,
        ollama.Client(host=url) as connected,
    ):
        yield connected


def test_a_chat_streams_lines_and_tells_counts_in_the_last(client: ollama.Client) -> None:
    *parts, last = client.chat("sim-8b", HELLO, stream=True)
    assert [bool(part.message.thinking) for part in parts] == [True] * 3 + [False] * 5
    assert all(part.message.content for part in parts[3:])
    assert not any(part.done for part in parts)
    assert (last.done, last.done_reason) == (True, "stop")
    assert (last.prompt_eval_count, last.eval_count) == (3, 8)


def test_a_whole_chat_says_what_the_stream_says(client: ollama.Client) -> None:
    whole = client.chat("sim-8b", HELLO)
    parts = list(client.chat("sim-8b", HELLO, stream=True))
    assert whole.message.content == "".join(part.message.content or "" for part in parts)
    assert whole.message.thinking == "".join(part.message.thinking or "" for part in parts)
    assert (whole.done, whole.eval_count) == (True, 8)


def test_generate_streams_text_and_thinking(client: ollama.Client) -> None:
    *parts, last = client.generate("sim-8b", "Good morning", stream=True)
    assert [bool(part.thinking) for part in parts] == [True] * 3 + [False] * 5
    assert (last.done, last.response, last.eval_count) == (True, "", 8)
    whole = client.generate("sim-8b", "Good morning")
    assert whole.response == "".join(part.response or "" for part in parts)


@pytest.mark.parametrize(("limit", "count"), [(4, 4), (-1, 8), (0, 8)])
def test_num_predict_cuts_the_answer(client: ollama.Client, limit: int, count: int) -> None:
    whole = client.generate("sim-8b", "Good morning", options={"num_predict": limit})
    assert whole.eval_count == count
    assert whole.done_reason == ("length" if count == 4 else "stop")


def test_a_tool_call_leaves_whole() -> None:
    with (
        running(EngineSettings(**FAST, tools=True)) as url,
        ollama.Client(host=url) as client,
    ):
        called, last = client.chat("sim-8b", HELLO, tools=[TOOL], stream=True)
        whole = client.chat("sim-8b", HELLO, tools=[TOOL])
        cut = client.chat("sim-8b", HELLO, tools=[TOOL], options={"num_predict": 2})
    for message in (called.message, whole.message):
        assert message.tool_calls is not None
        (call,) = message.tool_calls
        assert (call.function.name, list(call.function.arguments)) == ("look_up", ["place"])
    assert last.done_reason == "stop"
    assert last.eval_count == whole.eval_count
    assert (cut.message.tool_calls, cut.done_reason) == (None, "length")


def test_models_and_version_are_told(client: ollama.Client) -> None:
    assert [model.model for model in client.list().models] == ["sim-8b"]


def test_errors_are_those_that_the_client_knows(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="`other` does not exist") as missing:
        client.chat("other", HELLO)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="/api/show") as unknown:
        client.show("sim-8b")
    assert unknown.value.status_code == 404


def test_errors_by_chance_are_those_that_the_client_knows() -> None:
    seen = set()
    with (
        running(EngineSettings(**FAST, answer_tokens=4, error_rate=1)) as url,
        ollama.Client(host=url) as client,
    ):
        for _ in range(40):
            with pytest.raises((ollama.ResponseError, httpx.HTTPError)) as caught:
                list(client.chat("sim-8b", HELLO, stream=True))
            seen.add(getattr(caught.value, "status_code", None))
    # -1 is an error inside the stream, None the end of the connection.
    assert seen == {429, 500, -1, None}


def test_durations_are_those_of_the_simulated_engine() -> None:
    async def main() -> list[Played]:
        settings = EngineSettings(ttft=0.5, rate=40, answer_tokens=21, max_concurrency=1)
        engine = build_app(settings, clock=asyncio.get_running_loop().time)
        ask = {"model": "sim-8b", "prompt": ""}
        return await asyncio.gather(*(post(engine, "/api/generate", ask) for _ in range(2)))

    first, second = (orjson.loads(played.writes[-1][1]) for played in at_once(main()))
    assert (first["load_duration"], second["load_duration"]) == (0, 1_000_000_000)
    assert (first["total_duration"], second["total_duration"]) == (1_000_000_000, 2_000_000_000)
    for last in (first, second):
        assert last["prompt_eval_duration"] == 500_000_000
        assert (last["eval_count"], last["eval_duration"]) == (21, 500_000_000)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/api/chat", {"messages": "hello"}),
        ("/api/chat", {"messages": HELLO, "stream": 1}),
        ("/api/generate", {"prompt": ["hello"]}),
        ("/api/generate", {"options": {"num_predict": "many"}}),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(path: str, change: dict[str, Any]) -> None:
    played = at_once(post(build_app(EngineSettings()), path, change))
    assert played.status == 400
    assert isinstance(played.json["error"], str)
