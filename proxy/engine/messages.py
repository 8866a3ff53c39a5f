"""Anthropic's messages: typed events, output tokens counted up to the event that tells them.

Source: Anthropic's API reference (messages, streaming).
"""

from collections.abc import Iterable
from typing import Any

import orjson

from proxy.engine import ask, words
from proxy.engine.answer import Channel, Reply, runs
from proxy.engine.ask import Ask, Body, Refusal
from proxy.engine.wire import Interface, Payload, Times, Wire, anthropic_error, typed


def read(body: Body) -> Ask:
    """The body of a messages request. Raises Refusal."""
    limit = ask.whole_number(body, "max_tokens")
    if limit is None:
        raise ask.invalid("max_tokens", "is required")
    return Ask(
        model=ask.model(body),
        prompts=(words.spoken(body.get("system")) + ask.messages(body),),
        stream=ask.flag(body, "stream"),
        limit=limit,
        **_tool_choice(body.get("tool_choice"), body.get("tools")),
    )


def _tool_choice(choice: Any, tools: Any) -> dict[str, Any]:
    declared = ask.functions(tools, None, "input_schema")
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind in ("any", "tool"):
        name = str(choice.get("name")) if kind == "tool" else None
        return {"functions": ask.demand(declared, name), "tool_choice": "required"}
    return {"functions": declared, "tool_choice": "none" if kind == "none" else "auto"}


# A block of content as it begins, and the delta that fills it: its type, and the key of the text.
_BLOCK: dict[Channel, Payload] = {
    Channel.REASONING: {"type": "thinking", "thinking": "", "signature": ""},
    Channel.TEXT: {"type": "text", "text": ""},
    Channel.NAME: {"type": "tool_use", "input": {}},
}
_DELTA = {
    Channel.REASONING: ("thinking_delta", "thinking"),
    Channel.TEXT: ("text_delta", "text"),
    Channel.NAME: ("input_json_delta", "partial_json"),
    Channel.ARGUMENTS: ("input_json_delta", "partial_json"),
}
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Messages(Wire):
    """Events `message_*` and `content_block_*`, or one `message`."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._blocks = 0
        self._channel: Channel | None = None  # of the block that is being written

    def opening(self) -> Iterable[bytes]:
        # The real service, too, has an output token here that is not yet sent.
        message = self._message([], None, {"output_tokens": 1})
        yield typed({"type": "message_start", "message": message})
        yield typed({"type": "ping"})

    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        if channel not in (self._channel, Channel.ARGUMENTS):
            yield from self._end_block()
            yield from self._begin_block(channel, text)
            self._channel = channel
        kind, key = _DELTA[channel]
        # The name is in the block's start; an empty piece of JSON follows, as from the service.
        yield self._on_block(type=kind, **{key: "" if channel is Channel.NAME else text})

    def closing(self, times: Times) -> Iterable[bytes]:
        yield from self._end_block()
        reason = _STOP[self.reply.answers[0].finish]
        yield typed(
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": self._usage(),
            }
        )
        yield typed({"type": "message_stop"})

    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        yield typed(anthropic_error(refusal))

    def whole(self, times: Times) -> Payload:
        answer = self.reply.answers[0]
        content: list[Payload] = []
        for channel, text in runs(answer.pieces):
            if channel is Channel.ARGUMENTS:
                content[-1]["input"] = _complete(text)
            else:
                content.append(self._block(channel, text, len(content)))
        return self._message(content, _STOP[answer.finish], {})

    def _begin_block(self, channel: Channel, text: str) -> Iterable[bytes]:
        name = text if channel is Channel.NAME else ""
        block = self._block(channel, name, self._blocks)
        yield typed({"type": "content_block_start", "index": self._blocks, "content_block": block})

    def _end_block(self) -> Iterable[bytes]:
        if self._channel is None:
            return
        if self._channel is Channel.REASONING:
            yield self._on_block(type="signature_delta", signature=self.reply.key)
        yield typed({"type": "content_block_stop", "index": self._blocks})
        self._blocks += 1

    def _on_block(self, **delta: Any) -> bytes:
        return typed({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _block(self, channel: Channel, text: str, number: int) -> Payload:
        if channel is Channel.NAME:
            return _BLOCK[channel] | {"id": f"toolu_{self.reply.key}{number}", "name": text}
        return _BLOCK[channel] | {_DELTA[channel][1]: text}

    def _message(self, content: list[Payload], stop: str | None, usage: Payload) -> Payload:
        return {
            "id": f"msg_{self.reply.key}",
            "type": "message",
            "role": "assistant",
            "model": self.reply.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": self._usage() | usage,
        }

    def _usage(self) -> Payload:
        return {
            "input_tokens": self.reply.ask.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": self.reply.output_tokens,
        }


def _complete(arguments: str) -> Any:
    """Arguments as an object; without any where the token limit cut them off."""
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}


MESSAGES = Interface("/v1/messages", read, Messages)
