"""Completions: text in, text out, several prompts and several answers to each.

Source: OpenAI's API reference (create completion) and recordings of vLLM.
"""

from collections.abc import Iterable
from typing import Any

from proxy.engine import ask
from proxy.engine.answer import Channel, Reply
from proxy.engine.ask import Ask, Body, Refusal
from proxy.engine.chat import DONE, usage, wants_usage
from proxy.engine.wire import Interface, Payload, Times, Wire, data, openai_error

# Where the request sets no limit; chat completions have none.
DEFAULT_LIMIT = 16


def read(body: Body) -> Ask:
    """The body of a completions request. Raises Refusal."""
    stream = ask.flag(body, "stream")
    return Ask(
        model=ask.model(body),
        prompts=prompts(body, "prompt"),
        stream=stream,
        limit=ask.whole_number(body, "max_tokens") or DEFAULT_LIMIT,
        n=ask.several(body),
        usage=wants_usage(body, stream),
        echo=ask.flag(body, "echo"),
        reasons=False,
        tool_choice="none",
    )


def prompts(body: Body, param: str) -> tuple[str, ...]:
    """A text, a list of texts, token ids, or lists of those, as texts. Raises Refusal."""
    value = body.get(param)
    if not isinstance(value, list) or (value and all(isinstance(one, int) for one in value)):
        value = [value]
    texts = tuple(_text(one) for one in value)
    if not texts or None in texts:
        raise ask.invalid(param, "must be a string, token ids, or a list of either")
    return tuple(text for text in texts if text is not None)


def _text(prompt: Any) -> str | None:
    """A prompt as text; token ids stand for four characters each, as in `words`."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return "".join(f"{token % 1000:4}" for token in prompt)
    return None


class Completions(Wire):
    """`text_completion` events, or one such object."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._begun: set[int] = set()

    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        if index not in self._begun:
            self._begun.add(index)
            text = self._echo(index) + text
        yield self._chunk(choices=[self._choice(index, text)])

    def finish(self, index: int) -> Iterable[bytes]:
        yield self._chunk(choices=[self._choice(index, "", self.reply.answers[index].finish)])

    def closing(self, times: Times) -> Iterable[bytes]:
        if self.reply.ask.usage:
            yield self._chunk(choices=[], usage=usage(self.reply))
        yield DONE

    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        yield data(openai_error(refusal))
        yield DONE

    def whole(self, times: Times) -> Payload:
        choices = [
            self._choice(index, self._echo(index) + answer.text(Channel.TEXT), answer.finish)
            for index, answer in enumerate(self.reply.answers)
        ]
        return self._object() | {"choices": choices, "usage": usage(self.reply)}

    def _echo(self, index: int) -> str:
        asked = self.reply.ask
        return asked.prompts[index // asked.n] if asked.echo else ""

    def _choice(self, index: int, text: str, finish: str | None = None) -> Payload:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}

    def _chunk(self, **fields: Any) -> bytes:
        return data(self._object() | fields)

    def _object(self) -> Payload:
        return {
            "id": f"cmpl-{self.reply.key}",
            "object": "text_completion",
            "created": int(self.reply.created.timestamp()),
            "model": self.reply.model,
        }


COMPLETIONS = Interface("/v1/completions", read, Completions)
