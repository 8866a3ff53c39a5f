"""Responses: typed events in a fixed order, token counts in the last one.

Source: OpenAI's API reference (responses, streaming events).
"""

from collections.abc import Iterable
from typing import Any

from proxy.engine import ask, words
from proxy.engine.answer import Channel, Reply, runs
from proxy.engine.ask import Ask, Body, Refusal
from proxy.engine.chat import tool_choice
from proxy.engine.wire import Interface, Payload, Times, Wire, openai_error, typed


def read(body: Body) -> Ask:
    """The body of a responses request. Raises Refusal."""
    said = body.get("input")
    if not isinstance(said, str | list):
        raise ask.invalid("input", "must be a string or a list of items")
    declared = ask.functions(body.get("tools"), None, "parameters")
    return Ask(
        model=ask.model(body),
        prompts=(words.spoken(body.get("instructions")) + words.spoken(said),),
        stream=ask.flag(body, "stream"),
        limit=ask.whole_number(body, "max_output_tokens"),
        **tool_choice(body.get("tool_choice"), declared),
    )


# An item of the output as it begins, and where its text goes. Only a call has no parts.
_PART: dict[str, Payload] = {
    "message": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    "reasoning": {"type": "reasoning_text", "text": ""},
}
_EXTRA: dict[str, Payload] = {
    "message": {"role": "assistant", "content": []},
    "reasoning": {"summary": [], "content": []},
    "function_call": {"arguments": ""},
}
_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_KIND = {
    Channel.REASONING: "reasoning",
    Channel.TEXT: "message",
    Channel.NAME: "function_call",
    Channel.ARGUMENTS: "function_call",
}


class Responses(Wire):
    """Events `response.*`, or one `response` object."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._sequence = 0
        self._items: list[Payload] = []  # the last one is being written

    def opening(self) -> Iterable[bytes]:
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress"))

    def delta(self, index: int, channel: Channel, text: str) -> Iterable[bytes]:
        kind = _KIND[channel]
        if not self._items or self._items[-1]["type"] != kind:
            yield from self._end_item()
            yield from self._begin_item(kind, text)
        if channel is Channel.ARGUMENTS:
            self._items[-1]["arguments"] += text
            yield self._on_item("response.function_call_arguments.delta", delta=text)
        elif channel is not Channel.NAME:
            part = self._items[-1]["content"][0]
            part["text"] += text
            yield self._on_part(f"response.{part['type']}.delta", delta=text, **_logprobs(part))

    def closing(self, times: Times) -> Iterable[bytes]:
        yield from self._end_item()
        status = self._status()
        yield self._event(f"response.{status}", response=self._response(status))

    def failure(self, refusal: Refusal) -> Iterable[bytes]:
        # The reference has the fields on the event itself, the live service in an object.
        error = openai_error(refusal)["error"]
        code = error["code"] or error["type"]
        fields = {"code": code, "message": refusal.message, "param": refusal.param}
        yield self._event("error", error=error, **fields)
        failed = self._response("failed")
        failed["error"] = {"code": code, "message": refusal.message}
        yield self._event("response.failed", response=failed)

    def whole(self, times: Times) -> Payload:
        # The items come about as they are streamed; the events themselves are not needed.
        for channel, text in runs(self.reply.answers[0].pieces):
            list(self.delta(0, channel, text))
        list(self._end_item())
        return self._response(self._status())

    def _begin_item(self, kind: str, text: str) -> Iterable[bytes]:
        identity = f"{_PREFIX[kind]}_{self.reply.key}{len(self._items)}"
        item: Payload = {"id": identity, "type": kind, "status": "in_progress", **_EXTRA[kind]}
        if kind == "function_call":
            item |= {"call_id": f"call_{self.reply.key}", "name": text}
        self._items.append(item)
        yield self._added("response.output_item.added")
        if kind in _PART:
            yield self._on_part("response.content_part.added", part=_PART[kind])
            item["content"] = [dict(_PART[kind])]

    def _end_item(self) -> Iterable[bytes]:
        if not self._items:
            return
        item = self._items[-1]
        if item["type"] == "function_call":
            done = "response.function_call_arguments.done"
            yield self._on_item(done, name=item["name"], arguments=item["arguments"])
        else:
            part = item["content"][0]
            text = part["text"]
            yield self._on_part(f"response.{part['type']}.done", text=text, **_logprobs(part))
            yield self._on_part("response.content_part.done", part=part)
        item["status"] = "completed"
        yield self._added("response.output_item.done")

    def _added(self, kind: str) -> bytes:
        return self._event(kind, output_index=len(self._items) - 1, item=self._items[-1])

    def _on_item(self, kind: str, **fields: Any) -> bytes:
        identity = self._items[-1]["id"]
        return self._event(kind, item_id=identity, output_index=len(self._items) - 1, **fields)

    def _on_part(self, kind: str, **fields: Any) -> bytes:
        return self._on_item(kind, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = typed({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return event

    def _status(self) -> str:
        return "incomplete" if self.reply.answers[0].finish == "length" else "completed"

    def _response(self, status: str) -> Payload:
        """The response object as it is now; it tells token counts once all is said."""
        asked, ended = self.reply.ask, status in ("completed", "incomplete")
        return {
            "id": f"resp_{self.reply.key}",
            "object": "response",
            "created_at": int(self.reply.created.timestamp()),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"}
            if status == "incomplete"
            else None,
            "instructions": None,
            "max_output_tokens": asked.limit,
            "metadata": {},
            "model": self.reply.model,
            "output": self._items if ended else [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": asked.tool_choice,
            "tools": [],
            "top_p": 1.0,
            "usage": _usage(self.reply) if ended else None,
        }


def _logprobs(part: Payload) -> Payload:
    return {"logprobs": []} if part["type"] == "output_text" else {}


def _usage(reply: Reply) -> Payload:
    prompt, output = reply.ask.prompt_tokens, reply.output_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        "total_tokens": prompt + output,
    }


RESPONSES = Interface("/v1/responses", read, Responses)
