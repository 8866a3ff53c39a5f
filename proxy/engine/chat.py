"""Chat completions as vLLM streams them: the role goes out with the first token.

Source: OpenAI's API reference (create chat completion) and recordings of vLLM. Reasoning is in
`reasoning_content`, as most servers have it.
"""

from collections.abc import Iterable
from typing import Any

from proxy.engine import ask
from proxy.engine.answer import Answer, Channel, Reply
from proxy.engine.ask import Ask, Body, Refusal
from proxy.engine.wire import Interface, Payload, Times, Wire, data, openai_error

DONE = b"data: [DONE]\n\n"


def read(body: Body) -> Ask:
    """The body of a chat completions request. Raises Refusal."""
    declared = ask.functions(body.get("tools"), "function", "parameters")
    stream = ask.flag(body, "stream")
    return Ask(
        model=ask.model(body),
        prompts=(ask.messages(body),),
        stream=stream,
        limit=ask.whole_number(body, "max_completion_tokens")
        or ask.whole_number(body, "max_tokens"),
        n=ask.several(body),
        usage=wants_usage(body, stream),
        **tool_choice(body.get("tool_choice"), declared),
    )


def wants_usage(body: Body, stream: bool) -> bool:
    """Whether `stream_options` asks for token counts. Raises Refusal."""
    options = body.get("stream_options")
    if options is None:
        return False
    if not stream:
        raise ask.invalid("stream_options", "only goes with stream: true")
    if not isinstance(options, dict):
        raise ask.invalid("stream_options", "must be an object")
    return ask.flag(options, "include_usage")


def tool_choice(choice: Any, declared: tuple[ask.Function, ...]) -> dict[str, Any]:
    """The fields of `Ask` that follow from a `tool_choice`, nested or flat. Raises Refusal."""
    if isinstance(choice, dict):
        nested = choice.get("function")
        name = (nested if isinstance(nested, dict) else choice).get("name")
        return {"functions": ask.demand(declared, str(name)), "tool_choice": "required"}
    if choice == "required":
        return {"functions": ask.demand(declared, None), "tool_choice": "required"}
    return {"functions": declared, "tool_choice": "none" if choice == "none" else "auto"}


def usage(reply: Reply) -> Payload:
    """Token counts of a reply, all answers together."""
    prompt, output, hidden = reply.ask.prompt_tokens, reply.output_tokens, reply.reasoning_tokens
    counts: Payload = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + output,
        "completion_tokens": output,
    }
    if hidden:
        counts["completion_tokens_details"] = {"reasoning_tokens": hidden}
    return counts


class Chat(Wire):
    """`chat.completion.chunk` events, or one `chat.completion`."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._begun: set[int] = set()

    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        if index not in self._begun:
            self._begun.add(index)
            yield self._choice(index, {"role": "assistant", "content": ""})
        match channel:
            case Channel.REASONING:
                yield self._choice(index, {"reasoning_content": text})
            case Channel.TEXT:
                yield self._choice(index, {"content": text})
            case Channel.NAME:
                call = {"id": self._call_id(index), "type": "function", "index": 0}
                call["function"] = {"name": text, "arguments": ""}
                yield self._choice(index, {"tool_calls": [call]})
            case Channel.ARGUMENTS:
                fragment = {"index": 0, "function": {"arguments": text}}
                yield self._choice(index, {"tool_calls": [fragment]})

    def finish(self, index: int) -> Iterable[bytes]:
        yield self._choice(index, {}, self.reply.answers[index].finish)

    def closing(self, times: Times) -> Iterable[bytes]:
        if self.reply.ask.usage:
            yield self._chunk(choices=[], usage=usage(self.reply))
        yield DONE

    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        yield data(openai_error(refusal))
        yield DONE

    def whole(self, times: Times) -> Payload:
        choices = [
            {
                "index": index,
                "message": self._message(index, answer),
                "logprobs": None,
                "finish_reason": answer.finish,
            }
            for index, answer in enumerate(self.reply.answers)
        ]
        return self._object("chat.completion") | {"choices": choices, "usage": usage(self.reply)}

    def _message(self, index: int, answer: Answer) -> Payload:
        message: Payload = {
            "role": "assistant",
            "content": answer.text(Channel.TEXT) or None,
            "refusal": None,
        }
        if reasoning := answer.text(Channel.REASONING):
            message["reasoning_content"] = reasoning
        if name := answer.text(Channel.NAME):
            function = {"name": name, "arguments": answer.text(Channel.ARGUMENTS)}
            call = {"id": self._call_id(index), "type": "function", "function": function}
            message["tool_calls"] = [call]
        return message

    def _choice(self, index: int, delta: Payload, finish: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk(choices=[choice])

    def _chunk(self, **fields: Any) -> bytes:
        return data(self._object("chat.completion.chunk") | fields)

    def _object(self, kind: str) -> Payload:
        return {
            "id": f"chatcmpl-{self.reply.key}",
            "object": kind,
            "created": int(self.reply.created.timestamp()),
            "model": self.reply.model,
        }

    def _call_id(self, index: int) -> str:
        return f"call_{self.reply.key}{index}"


CHAT = Interface("/v1/chat/completions", read, Chat)
