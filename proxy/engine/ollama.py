"""Ollama's own interfaces: one JSON object a line, counts and durations in the last one.

Source: Ollama's API reference (chat, generate, tags, version). A stream is the default.
"""

from abc import abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

import orjson

from proxy.engine import ask, words
from proxy.engine.answer import Channel
from proxy.engine.ask import Ask, Body, Refusal
from proxy.engine.wire import Interface, Payload, Times, Wire, ollama_error


def read_chat(body: Body) -> Ask:
    """The body of a chat request. Raises Refusal."""
    return Ask(
        model=ask.model(body),
        prompts=(ask.messages(body),),
        stream=ask.flag(body, "stream", default=True),
        limit=_limit(body),
        functions=ask.functions(body.get("tools"), "function", "parameters"),
    )


def read_generate(body: Body) -> Ask:
    """The body of a generate request. Raises Refusal."""
    prompt = body.get("prompt", "")
    if not isinstance(prompt, str):
        raise ask.invalid("prompt", "must be a string")
    return Ask(
        model=ask.model(body),
        prompts=(words.spoken(body.get("system")) + prompt,),
        stream=ask.flag(body, "stream", default=True),
        limit=_limit(body),
        tool_choice="none",
    )


def _limit(body: Body) -> int | None:
    """`num_predict`; below 0 it means that there is no limit."""
    options = body.get("options")
    if not isinstance(options, dict):
        return None
    limit = ask.whole_number(options, "num_predict", least=-2)
    return limit if limit is not None and limit > 0 else None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


class _Ollama(Wire):
    """Lines of JSON, or one object."""

    media_type: ClassVar[bytes] = b"application/x-ndjson"

    @abstractmethod
    def _said(self, text: str = "", thinking: str = "", **more: Any) -> Payload:
        """Output as the interface puts it."""

    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        if channel is Channel.TEXT:
            yield self._line(self._said(text))
        elif channel is Channel.REASONING:
            yield self._line(self._said(thinking=text))

    def finish(self, index: int) -> Iterable[bytes]:
        # A tool call leaves whole, once its arguments are complete.
        if calls := self._calls():
            yield self._line(self._said(**calls))

    def closing(self, times: Times) -> Iterable[bytes]:
        yield self._line(self._said(), **self._done(times))

    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        yield orjson.dumps(ollama_error(refusal)) + b"\n"

    def whole(self, times: Times) -> Payload:
        text, thinking = (
            self.reply.answers[0].text(channel) for channel in (Channel.TEXT, Channel.REASONING)
        )
        return self._object(self._said(text, thinking, **self._calls()), **self._done(times))

    def _calls(self) -> Payload:
        answer = self.reply.answers[0]
        if answer.finish != "tool_calls":
            return {}
        arguments = orjson.loads(answer.text(Channel.ARGUMENTS))
        function = {"name": answer.text(Channel.NAME), "arguments": arguments}
        return {"tool_calls": [{"function": function}]}

    def _done(self, times: Times) -> Payload:
        cut = self.reply.answers[0].finish == "length"
        return {
            "done": True,
            "done_reason": "length" if cut else "stop",
            "total_duration": _nanoseconds(times.last - times.arrived),
            "load_duration": _nanoseconds(times.started - times.arrived),
            "prompt_eval_count": self.reply.ask.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(times.first - times.started),
            "eval_count": self.reply.output_tokens,
            "eval_duration": _nanoseconds(times.last - times.first),
        }

    def _line(self, said: Payload, **more: Any) -> bytes:
        return orjson.dumps(self._object(said, **more)) + b"\n"

    def _object(self, said: Payload, **more: Any) -> Payload:
        created = self.reply.created.isoformat().replace("+00:00", "Z")
        named: Payload = {"model": self.reply.model, "created_at": created}
        return named | said | {"done": False} | more


class OllamaChat(_Ollama):
    """`/api/chat`."""

    def _said(self, text: str = "", thinking: str = "", **more: Any) -> Payload:
        message = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        return {"message": message | more}


class OllamaGenerate(_Ollama):
    """`/api/generate`."""

    def _said(self, text: str = "", thinking: str = "", **more: Any) -> Payload:
        return {"response": text} | ({"thinking": thinking} if thinking else {}) | more


CHAT = Interface("/api/chat", read_chat, OllamaChat)
GENERATE = Interface("/api/generate", read_generate, OllamaGenerate)


def tags(models: tuple[str, ...], since: datetime) -> Payload:
    """The answer of `/api/tags`; the models are there since that date."""
    details = {"format": "none", "family": "simulated", "families": None}
    details |= {"parameter_size": "0B", "quantization_level": "none"}
    return {
        "models": [
            {
                "name": name,
                "model": name,
                "modified_at": since.isoformat(),
                "size": 0,
                "digest": "",
                "details": details,
            }
            for name in models
        ]
    }
