"""OpenAI's chat completions and completions, with the dialects of everyone who speaks them.

Source: OpenAI's API reference (create chat completion, streaming) and recordings of vLLM,
llama.cpp, SGLang, TGI, Ollama, LM Studio and the clouds.
"""

import re
from collections.abc import Callable

from proxy.formats import llamacpp
from proxy.formats.echo import Unechoed
from proxy.formats.event import (
    JSON,
    Call,
    Event,
    Interface,
    Reader,
    characters,
    count,
    is_error,
    items,
    mapping,
    mappings,
    text,
    written,
)
from proxy.formats.figures import in_chunk
from proxy.formats.prompt import echoed, prompt
from proxy.formats.usage import usage


def chat_call(body: dict[str, JSON], path: str) -> Call:
    """What a chat completions request asks for."""
    n = max(1, count(body.get("n")) or 1)
    reader: Reader | None = None
    if body.get("diffusing") is True:
        reader = _diffusing
    elif repeated := echoed(body):
        reader = Unechoed(chat_event, (repeated,), n)
    return _call("chat", body, path, prompt(body, "messages"), n, reader)


def completions_call(body: dict[str, JSON], path: str) -> Call:
    """What a completions request asks for; `prompt` may be a text, a list of them, or token ids."""
    given = body.get("prompt")
    several = items(given) if all(isinstance(one, str | list) for one in items(given)) else []
    prompts = [characters(one) for one in several or [given]]
    n = max(1, count(body.get("n")) or 1)
    reader = Unechoed(completions_event, prompts, n) if body.get("echo") is True else None
    length = sum(prompts) + characters(body.get("suffix")) or None
    return _call("completions", body, path, length, len(prompts) * n, reader)


def _call(
    api: str,
    body: dict[str, JSON],
    path: str,
    prompt_characters: int | None,
    choices: int,
    reader: Reader | None,
) -> Call:
    options = body.get("stream_options")
    return Call(
        api,
        text(body.get("model")) or _deployment(path),
        stream=body.get("stream") is True,
        asks_usage=mapping(options).get("include_usage") is True,
        # A value of another type is the client's mistake, to be answered by the upstream.
        can_ask_usage=options is None or isinstance(options, dict),
        prompt_characters=prompt_characters,
        choices=choices,
        reader=reader,
    )


def _deployment(path: str) -> str | None:
    """The model that Azure's paths name: `/openai/deployments/NAME/...`."""
    match = re.search(r"/deployments/([^/]+)/", path)
    return match[1] if match else None


# Keys of a chunk that says nothing beside its choices.
_PLAIN = frozenset(
    (
        "choices",
        "created",
        "id",
        "model",
        "object",
        "obfuscation",
        "prompt_text",
        "prompt_token_ids",
        "provider",
        "service_tier",
        "system_fingerprint",
        "usage",
    )
)


def chat_event(payload: dict[str, JSON], name: str) -> Event:
    """One `chat.completion.chunk`, or a whole `chat.completion`."""
    event = Event()
    choices = payload.get("choices")
    if type(choices) is list:
        for choice in choices:
            if type(choice) is dict:
                _choice(event, choice)
                _delta(event, choice)
    _frame(event, payload, name)
    return event


def _diffusing(payload: dict[str, JSON], name: str) -> Event:
    """Inception's `diffusing`: each delta is the whole text, less noisy than the one before."""
    event = chat_event(payload, name)
    event.whole = True
    return event


def completions_event(payload: dict[str, JSON], name: str) -> Event:
    """One `text_completion` chunk, or a whole answer. llama.cpp answers some paths natively."""
    choices = payload.get("choices")
    if type(choices) is not list and "content" in payload:
        return llamacpp.event(payload, name)
    event = Event()
    for choice in items(choices):
        if type(choice) is dict:
            _choice(event, choice)
            event.visible += characters(choice.get("text"))
    _frame(event, payload, name)
    return event


def _choice(event: Event, choice: dict[str, JSON]) -> None:
    """What a choice says beside its text."""
    if index := choice.get("index"):
        event.index = count(index) or 0
    if finish := choice.get("finish_reason"):
        event.finish = text(finish) or event.finish
        event.finished += 1
        event.error |= finish == "error"
        event.usage = usage(choice.get("usage")) or event.usage  # Moonshot
    if choice.get("token_ids") or choice.get("logprobs"):
        exact = _tokens(choice)
        event.tokens = exact if event.tokens is None else event.tokens + (exact or 0)


def _tokens(choice: dict[str, JSON]) -> int | None:
    """Tokens in this delta, where the client asked for token ids (vLLM) or logprobs."""
    ids = choice.get("token_ids")
    if isinstance(ids, list):
        return len(ids)
    logprobs = mapping(choice.get("logprobs"))
    lists = (logprobs.get("content"), logprobs.get("refusal"), logprobs.get("tokens"))
    tokens = sum(len(found) for found in lists if isinstance(found, list))
    # With `echo` the prompt has logprobs too, and vLLM says which tokens are the prompt's.
    return max(0, tokens - len(items(choice.get("prompt_token_ids")))) or None


def _delta(event: Event, choice: dict[str, JSON]) -> None:
    """What was generated, in a delta or in a whole message."""
    delta = choice.get("delta")
    if delta is None and (delta := choice.get("message")):
        event.whole = True
        event.end = event.finished > 0
    if type(delta) is not dict:
        return
    content = delta.get("content")
    if type(content) is str:
        event.visible += len(content)
        if len(delta) == 1:
            return
    _channels(event, delta)


def _channels(event: Event, delta: dict[str, JSON]) -> None:
    """What was generated beside a text under `content`."""
    thought: JSON = None
    for key, value in delta.items():
        if not value:
            continue
        if key in _REASONING:
            if value != thought:  # one vLLM sends the same text under two names
                event.hidden += characters(value)
            thought = value
        elif channel := _CHANNELS.get(key):
            channel(event, value)
    if thought is None and "reasoning_details" in delta:  # OpenRouter, beside `reasoning`
        event.hidden += sum(
            characters(part.get("text") or part.get("summary"))
            for part in mappings(delta["reasoning_details"])
        )


def _refusal(event: Event, value: JSON) -> None:
    event.visible += characters(value)


def _parts(event: Event, value: JSON) -> None:
    """Content that is a list of parts; Mistral sends some that are thinking."""
    for part in mappings(value):
        event.hidden += characters(part.get("thinking"))
        event.visible += characters(part.get("text"))


def _tools(event: Event, value: JSON) -> None:
    for call in mappings(value):
        _function(event, call.get("function") or call.get("custom"))


def _function(event: Event, value: JSON) -> None:
    function = mapping(value)
    # Arguments are a text; Ollama and some versions of TGI give an object.
    event.visible += characters(function.get("name")) + written(function.get("arguments"))
    event.visible += characters(function.get("input"))


def _audio(event: Event, value: JSON) -> None:
    audio = mapping(value)
    event.visible += characters(audio.get("transcript")) or bool(audio.get("data"))


def _images(event: Event, value: JSON) -> None:
    event.visible += len(items(value))


_CHANNELS: dict[str, Callable[[Event, JSON], None]] = {
    "content": _parts,
    "refusal": _refusal,
    "tool_calls": _tools,
    "function_call": _function,
    "audio": _audio,
    "images": _images,
}
_REASONING = frozenset(("reasoning_content", "reasoning", "reasoning_text", "thinking"))


def _frame(event: Event, payload: dict[str, JSON], name: str) -> None:
    """What a chunk says beside its choices: model, usage, the engine's figures, errors."""
    model = payload.get("model")
    if type(model) is str and model:
        event.model = model
    reported = payload.get("usage")
    if name or not _PLAIN.issuperset(payload):
        x_groq = mapping(payload.get("x_groq"))
        reported = reported or x_groq.get("usage")
        if "prompt_progress" not in payload:  # whose timings are not final
            event.engine = in_chunk(payload)
        event.error |= is_error(payload, name) or bool(x_groq.get("error"))
    if type(reported) is dict:
        event.usage = usage(reported) or event.usage
        event.usage_only = not payload.get("choices")
    if event.usage or event.engine:
        event.so_far = _so_far(event)


def _so_far(event: Event) -> int | None:
    """Output tokens so far, where a chunk with output counts them."""
    if not (event.visible or event.hidden):
        return None
    if event.usage is not None and (generated := event.usage.generated):
        return generated
    # llama.cpp with `timings_per_token`
    return int((event.engine or {}).get("output_tokens", 0)) or None


ROWS = (
    Interface("chat", re.compile(r"/chat/completions/?$"), chat_call, chat_event),
    Interface("completions", re.compile(r"/completions/?$"), completions_call, completions_event),
)
