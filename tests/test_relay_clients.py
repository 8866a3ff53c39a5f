"""The official clients work through the proxy unchanged: what they get is what the engine says."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import httpx
import ollama
import openai
import pytest
from engine.rig import FAST, running
from serve_rig import Proxy, eventually, serving

from proxy.engine import EngineSettings

MODEL = "sim-8b"
SAY: Any = [{"role": "user", "content": "Say something about the sea."}]
ITS_OWN = {"id", "created", "created_at", "item_id", "call_id", "completed_at", "signature"}
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {}}}]


class Pair(NamedTuple):
    """The same engine, reached directly and through the proxy."""

    direct: str
    proxied: str
    log: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    log = tmp_path_factory.mktemp("log") / "requests.jsonl"
    with (
        running(EngineSettings(models=(MODEL,), seed=7, reasoning=4, **FAST)) as engine,
        serving("--upstream", engine, f"--log-requests={log}") as proxy,
    ):
        yield Pair(engine, f"http://127.0.0.1:{proxy.ready().port}", log)


def line(log: Path, request_id: str) -> dict[str, Any]:
    """The request log's line on an exchange."""
    found: list[dict[str, Any]] = []

    def written() -> bool:
        found.extend(
            row
            for row in map(json.loads, log.read_text().splitlines())
            if row["request_id"] == request_id
        )
        return bool(found)

    assert eventually(written)
    return found[0]


def plain(value: Any) -> Any:
    """An answer without what differs from one to the next: its own ids and times."""
    if isinstance(value, dict):
        changing = {
            "id",
            "created",
            "created_at",
            "item_id",
            "call_id",
            "completed_at",
            "signature",
        }
        return {k: plain(v) for k, v in value.items() if not (k in changing or "duration" in k)}
    return [plain(item) for item in value] if isinstance(value, list) else value


def told(client: openai.OpenAI, **more: Any) -> list[Any]:
    return [
        plain(c.model_dump())
        for c in client.chat.completions.create(model=MODEL, messages=SAY, stream=True, **more)
    ]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stream_options": {"include_usage": True}},
        {"tools": TOOLS, "tool_choice": "required"},
        {"n": 2, "max_tokens": 5},
    ],
    ids=["plain", "usage", "tools", "two choices"],
)
def test_a_stream_of_openai(pair: Pair, more: dict[str, Any]) -> None:
    with (
        openai.OpenAI(base_url=f"{pair.direct}/v1", api_key="x") as direct,
        openai.OpenAI(base_url=f"{pair.proxied}/v1", api_key="x") as proxied,
    ):
        assert told(proxied, **more) == told(direct, **more)


def test_whole_answers_of_openai(pair: Pair) -> None:
    def ask(base: str) -> list[Any]:
        with openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
            return [
                plain(answer.model_dump())
                for answer in (
                    client.chat.completions.create(model=MODEL, messages=SAY),
                    client.completions.create(model=MODEL, prompt="The sea"),
                    client.responses.create(model=MODEL, input="The sea"),
                    client.embeddings.create(model=MODEL, input=["a", "b"]),
                    client.models.list(),
                )
            ]

    assert ask(pair.proxied) == ask(pair.direct)


def test_a_stream_of_responses(pair: Pair) -> None:
    def ask(base: str) -> list[Any]:
        with openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
            stream = client.responses.create(model=MODEL, input="The sea", stream=True)
            return [plain(event.model_dump()) for event in stream]

    assert ask(pair.proxied) == ask(pair.direct)


def test_errors_of_openai(pair: Pair) -> None:
    said = set()
    for base in (pair.direct, pair.proxied):
        with openai.OpenAI(base_url=f"{base}/v1", api_key="x", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError) as caught:
                client.chat.completions.create(model="none", messages=SAY)
            said.add(caught.value.message)
    assert len(said) == 1


def test_too_many_requests_stay_a_rate_limit_error() -> None:
    with (
        running(EngineSettings(models=(MODEL,), error_rate=1.0, seed=1, **FAST)) as engine,
        serving("--upstream", engine) as proxy,
    ):
        base = f"http://127.0.0.1:{proxy.ready().port}/v1"
        raised = set()
        with openai.OpenAI(base_url=base, api_key="x", max_retries=0) as client:
            for number in range(40):
                try:
                    client.chat.completions.create(
                        model=MODEL, messages=[{"role": "user", "content": str(number)}]
                    )
                except openai.APIError as error:
                    raised.add(type(error))
        assert {openai.RateLimitError, openai.InternalServerError} <= raised
        assert rejected(proxy) > 0


def rejected(proxy: Proxy) -> float:
    assert eventually(lambda: proxy.count("tokometer_requests_total", code="429") > 0)
    return proxy.count("tokometer_requests_total", outcome="rejected", code="429")


def test_a_cancelled_stream_is_a_client_that_left() -> None:
    with (
        running(EngineSettings(models=(MODEL,), rate=20.0, ttft=0.0, answer_tokens=5000)) as engine,
        serving("--upstream", engine) as proxy,
    ):
        base = f"http://127.0.0.1:{proxy.ready().port}/v1"
        with openai.OpenAI(base_url=base, api_key="x") as client:
            stream = client.chat.completions.create(model=MODEL, messages=SAY, stream=True)
            next(iter(stream))
            stream.close()
        assert eventually(
            lambda: proxy.count("tokometer_requests_total", outcome="client_closed") == 1
        )
        assert proxy.count("tokometer_streams") == 0


def test_messages_of_anthropic(pair: Pair) -> None:
    def ask(base: str) -> list[Any]:
        with anthropic.Anthropic(base_url=base, api_key="x") as client:
            whole = client.messages.create(model=MODEL, messages=SAY, max_tokens=30)
            with client.messages.stream(model=MODEL, messages=SAY, max_tokens=30) as stream:
                events = [plain(event.model_dump()) for event in stream]
            return [plain(whole.model_dump()), *events]

    assert ask(pair.proxied) == ask(pair.direct)


def test_chats_and_texts_of_ollama(pair: Pair) -> None:
    def ask(base: str) -> list[Any]:
        with ollama.Client(host=base) as client:
            answers: list[Any] = [client.chat(MODEL, SAY), client.generate(MODEL, "The sea")]
            answers += client.chat(MODEL, SAY, stream=True)
            answers += client.generate(MODEL, "The sea", stream=True)
        return [plain(answer.model_dump()) for answer in answers]

    assert ask(pair.proxied) == ask(pair.direct)


STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": SAY, "stream": True}),
    "completions": ("/v1/completions", {"prompt": "The sea", "stream": True}),
    "responses": ("/v1/responses", {"input": "The sea", "stream": True}),
    "messages": ("/v1/messages", {"messages": SAY, "stream": True, "max_tokens": 30}),
    "ollama_chat": ("/api/chat", {"messages": SAY}),
    "ollama_generate": ("/api/generate", {"prompt": "The sea"}),
}
CHANGING = re.compile(
    rb'"(?:id|item_id|call_id|signature)":\s*"[^"]*"|"(?:created|created_at|completed_at)":\s*"?[^",}]*"?'
    rb'|"[a-z_]*duration":\s*\d+'
)


@pytest.mark.parametrize("api", STREAMS)
def test_raw_bytes_are_equal_and_the_stream_is_measured(pair: Pair, api: str) -> None:
    path, body = STREAMS[api]

    def ask(base: str) -> bytes:
        headers = {"X-Request-Id": f"raw-{api}"}
        answer = httpx.post(base + path, json={"model": MODEL} | body, headers=headers)
        assert answer.status_code == 200
        return CHANGING.sub(b"", answer.content)

    assert ask(pair.proxied) == ask(pair.direct)
    row = line(pair.log, f"raw-{api}")
    told = (row["api"], row["stream"], row["outcome"], row["token_source"], row["model"])
    assert told == (api, True, "completed", "usage", MODEL)
    assert row["output_tokens"] > 1 and row["prompt_tokens"] > 0
    assert 0 < row["ttft_seconds"] <= row["duration_seconds"]
    assert time.time() - 3600 < time.mktime(time.strptime(row["time"][:19], "%Y-%m-%dT%H:%M:%S"))
