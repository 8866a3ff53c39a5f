"""Streams as users start them: the official clients, pointed at tokometer.

Each function reads one stream and returns what the engine said about it, as far as the client was
told. An `Ask` with `leave_after` is abandoned after that many events with output.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx
import openai
from pydantic import BaseModel

SECONDS = 300.0  # for a whole stream
FAILURES = (openai.APIError, anthropic.APIError, httpx.HTTPError)


@dataclass(frozen=True)
class Ask:
    """One stream to start."""

    request_id: str
    prompt: str
    max_tokens: int
    wants_usage: bool = True
    leave_after: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Request-Id": self.request_id}


@dataclass
class Told:
    """What the engine reported to the client; None where it said nothing."""

    request_id: str
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    timings: dict[str, float] | None = None
    failure: str | None = None
    outputs: int = field(default=0, repr=False)

    def has_enough(self, ask: Ask) -> bool:
        """Whether the client leaves now; to be asked once per event with output."""
        self.outputs += 1
        return self.outputs == ask.leave_after

    def note(self, prompt_tokens: int, output_tokens: int, timings: Any = None) -> None:
        """The last report of a stream is the one that holds; `timings` are llama.cpp's."""
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.timings = timings


Call = Callable[["Clients", Ask], Awaitable[Told]]


class Clients:
    """The clients of one proxy, kept for the whole run so that connections are reused."""

    def __init__(self, base: str, model: str) -> None:
        self.model = model
        self.openai = openai.AsyncOpenAI(
            base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=SECONDS
        )
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=base, api_key="none", max_retries=0, timeout=SECONDS
        )
        self.http = httpx.AsyncClient(base_url=base, timeout=SECONDS)

    async def close(self) -> None:
        await self.openai.close()
        await self.anthropic.close()
        await self.http.aclose()


async def chat(clients: Clients, ask: Ask) -> Told:
    stream = await clients.openai.chat.completions.create(
        model=clients.model,
        messages=[{"role": "user", "content": ask.prompt}],
        max_tokens=ask.max_tokens,
        stream=True,
        stream_options={"include_usage": True} if ask.wants_usage else openai.omit,
        extra_headers=ask.headers,
    )
    return await _read(stream, ask, lambda choice: choice.delta.content)


async def completions(clients: Clients, ask: Ask) -> Told:
    stream = await clients.openai.completions.create(
        model=clients.model,
        prompt=ask.prompt,
        max_tokens=ask.max_tokens,
        stream=True,
        stream_options={"include_usage": True} if ask.wants_usage else openai.omit,
        extra_headers=ask.headers,
    )
    return await _read(stream, ask, lambda choice: choice.text)


async def _read(stream: openai.AsyncStream[Any], ask: Ask, text: Callable[[Any], Any]) -> Told:
    """What a stream of chunks with choices told; `text` is that of a choice."""
    told = Told(ask.request_id)
    async with stream:
        async for chunk in stream:
            if chunk.usage:
                counts = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
                told.note(*counts, timings_of(chunk))
            if chunk.choices and text(chunk.choices[0]) and told.has_enough(ask):
                break
    return told


async def responses(clients: Clients, ask: Ask) -> Told:
    told = Told(ask.request_id)
    stream = await clients.openai.responses.create(
        model=clients.model,
        input=ask.prompt,
        max_output_tokens=ask.max_tokens,
        stream=True,
        extra_headers=ask.headers,
    )
    async with stream:
        async for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                if usage := event.response.usage:
                    told.note(usage.input_tokens, usage.output_tokens, timings_of(event))
            elif event.type == "response.output_text.delta" and told.has_enough(ask):
                break
    return told


async def messages(clients: Clients, ask: Ask) -> Told:
    told, prompt_tokens = Told(ask.request_id), 0
    stream = await clients.anthropic.messages.create(
        model=clients.model,
        messages=[{"role": "user", "content": ask.prompt}],
        max_tokens=ask.max_tokens,
        stream=True,
        extra_headers=ask.headers,
    )
    async with stream:
        async for event in stream:
            if event.type == "message_start":
                start = event.message.usage
                # this interface counts the cached part of a prompt beside the rest of it
                prompt_tokens = start.input_tokens + (start.cache_read_input_tokens or 0)
            elif event.type == "message_delta":
                told.note(prompt_tokens, event.usage.output_tokens)
            elif event.type == "content_block_delta" and told.has_enough(ask):
                break
    return told


async def native(clients: Clients, ask: Ask) -> Told:
    """llama.cpp's own `/completion`."""
    told = Told(ask.request_id)
    body = {"prompt": ask.prompt, "n_predict": ask.max_tokens, "stream": True}
    post = clients.http.stream("POST", "/completion", json=body, headers=ask.headers)
    async with post as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["stop"]:
                counts = (event["tokens_evaluated"], event["tokens_predicted"])
                told.note(*counts, event["timings"])
            elif event["content"] and told.has_enough(ask):
                break
    return told


def timings_of(event: BaseModel) -> Any:
    """llama.cpp's timings of the stream, a field that the clients do not know of."""
    return (event.model_extra or {}).get("timings")
