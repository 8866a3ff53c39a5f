"""How an answer is written: what every interface of the simulated engine has to say."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import orjson

from proxy.engine.answer import Channel, Reply
from proxy.engine.ask import Ask, Refusal

Payload = dict[str, Any]


def data(payload: Payload) -> bytes:
    """A server-sent event without a name."""
    return b"data: %b\n\n" % orjson.dumps(payload)


def typed(payload: Payload) -> bytes:
    """A server-sent event that is named after the type of its payload."""
    return b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), orjson.dumps(payload))


@dataclass(slots=True)
class Times:
    """When things happened to a request, seconds on the engine's clock; tokens as they were due."""

    arrived: float
    started: float = 0.0  # there was a free slot
    first: float = 0.0  # token
    last: float = 0.0  # token


class Wire(ABC):
    """Writes one reply. Each thing to write is one event, and one write to the client."""

    media_type: ClassVar[bytes] = b"text/event-stream; charset=utf-8"

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def opening(self) -> Iterable[bytes]:
        """What is said before there is any output."""
        return ()

    @abstractmethod
    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        """Some output of one of the answers."""

    def finish(self, index: int) -> Iterable[bytes]:
        """The end of one of the answers."""
        return ()

    @abstractmethod
    def closing(self, times: Times) -> Iterable[bytes]:
        """The end of them all."""

    @abstractmethod
    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        """The end instead, when it goes wrong half way."""

    @abstractmethod
    def whole(self, times: Times) -> Payload:
        """The reply to a request that asked for no stream."""


class Interface(NamedTuple):
    """One interface for generated text."""

    path: str
    read: Callable[[Payload], Ask]  # a request's body to what it asks for; raises Refusal
    wire: Callable[[Reply], Wire]


def openai_error(refusal: Refusal) -> Payload:
    """The error object of OpenAI's API, with its words."""
    kind = {429: "requests", 500: "server_error"}.get(refusal.status, "invalid_request_error")
    code = refusal.code or {429: "rate_limit_exceeded"}.get(refusal.status)
    return {
        "error": {
            "message": refusal.message,
            "type": kind,
            "param": refusal.param,
            "code": code,
        }
    }


def anthropic_error(refusal: Refusal) -> Payload:
    """The error object of Anthropic's API, with its words."""
    kinds = {404: "not_found_error", 429: "rate_limit_error", 500: "api_error"}
    kind = kinds.get(refusal.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def ollama_error(refusal: Refusal) -> Payload:
    """The error object of Ollama's API."""
    return {"error": refusal.message}


def error(path: str, refusal: Refusal) -> Payload:
    """The error object that a client of this path understands."""
    if path.startswith("/v1/messages"):
        return anthropic_error(refusal)
    return ollama_error(refusal) if path.startswith("/api/") else openai_error(refusal)
