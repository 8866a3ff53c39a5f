"""OpenAI's chat completions and completions, with the dialects of everyone who speaks them.

Source: OpenAI's API reference (create chat completion, streaming) and recordings of vLLM,
llama.cpp, SGLang, TGI, Ollama and the clouds.
"""

import re
from collections.abc import Callable

from proxy.formats.event import (
    JSON,
    Call,
    Event,
    Interface,
    Usage,
    characters,
    count,
    items,
    mapping,
    number,
    text,
)


def chat_call(body: dict[str, JSON], path: str) -> Call:
    """What a chat completions request asks for."""
    prompt = sum(characters(mapping(m).get("content")) for m in items(body.get("messages")))
    return _call("chat", body, path, prompt, 1)


def completions_call(body: dict[str, JSON], path: str) -> Call:
    """What a completions request asks for; `prompt` may be a text, a list of them, or token ids."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and all(isinstance(p, str | list) for p in prompt)
    return _call(
        "completions", body, path, characters(prompt), len(items(prompt)) if several else 1
    )


def _call(api: str, body: dict[str, JSON], path: str, prompt: int, prompts: int) -> Call:
    options = body.get("stream_options")
    return Call(
        api,
        text(body.get("model")) or deployment(path),
        stream=body.get("stream") is True,
        asks_usage=mapping(options).get("include_usage") is True,
        # A value of another type is the client's mistake, to be answered by the upstream.
        can_ask_usage=options is None or isinstance(options, dict),
        prompt_characters=prompt or None,
        choices=max(1, prompts) * max(1, count(body.get("n")) or 1),
    )


def deployment(path: str) -> str | None:
    """The model that Azure's paths name: `/openai/deployments/NAME/...`."""
    match = re.search(r"/deployments/([^/]+)/", path)
    return match[1] if match else None


def chat_event(payload: dict[str, JSON], name: str) -> Event | None:
    """One `chat.completion.chunk`, or a whole `chat.completion`."""
    event = Event(model=text(payload.get("model")))
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            _choice(event, choice)
            _delta(event, choice.get("delta") or choice.get("message"))
    return _frame(event, payload, choices, name)


def completions_event(payload: dict[str, JSON], name: str) -> Event | None:
    """One `text_completion` chunk, or a whole answer."""
    event = Event(model=text(payload.get("model")))
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            _choice(event, choice)
            event.visible += characters(choice.get("text"))
    return _frame(event, payload, choices, name)


def _choice(event: Event, choice: dict[str, JSON]) -> None:
    """What a choice says beside its text."""
    event.index = count(choice.get("index")) or 0
    finish = text(choice.get("finish_reason"))
    if finish:
        event.finish = finish
        event.finished += 1
        event.error |= finish == "error"
    exact = _tokens(choice)
    if exact is not None:
        event.tokens = (event.tokens or 0) + exact


def _tokens(choice: dict[str, JSON]) -> int | None:
    """Tokens in this delta, where the client asked for token ids (vLLM) or logprobs."""
    ids = choice.get("token_ids")
    if isinstance(ids, list):
        return len(ids)
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    lists = [v for k in ("content", "refusal", "tokens") if isinstance(v := logprobs.get(k), list)]
    return sum(map(len, lists)) if lists else None


def _delta(event: Event, delta: JSON) -> None:
    if not isinstance(delta, dict):
        return
    hidden: list[JSON] = []
    for key, value in delta.items():
        if value and (channel := _CHANNELS.get(key)):
            channel(event, value)
        elif value and key in _REASONING and value not in hidden:  # one vLLM sends it under both
            hidden.append(value)
            event.hidden += characters(value)


def _content(event: Event, value: JSON) -> None:
    if isinstance(value, str):
        event.visible += len(value)
        return
    for part in items(value):  # Mistral: a list of parts, some of them thinking
        part = mapping(part)
        event.hidden += characters(part.get("thinking"))
        event.visible += characters(part.get("text"))


def _tools(event: Event, value: JSON) -> None:
    for call in items(value):
        function = mapping(call).get("function") or mapping(call).get("custom")
        _function(event, function)


def _function(event: Event, value: JSON) -> None:
    function = mapping(value)
    for key in ("name", "arguments", "input"):
        argument = function.get(key)
        # Ollama gives arguments as an object.
        event.visible += len(argument) if isinstance(argument, str) else _written(argument)


def _written(value: JSON) -> int:
    """Characters that a JSON object takes when written out."""
    return len(str(value)) if isinstance(value, dict | list) and value else 0


def _audio(event: Event, value: JSON) -> None:
    audio = mapping(value)
    event.visible += characters(audio.get("transcript")) or characters(audio.get("data"))


_CHANNELS: dict[str, Callable[[Event, JSON], None]] = {
    "content": _content,
    "refusal": _content,
    "tool_calls": _tools,
    "function_call": _function,
    "audio": _audio,
}
_REASONING = {"reasoning_content", "reasoning", "reasoning_text", "thinking"}


def _frame(event: Event, payload: dict[str, JSON], choices: JSON, name: str) -> Event:
    """What a chunk says beside its choices: usage, the engine's figures, errors."""
    reported = payload.get("usage") or mapping(payload.get("x_groq")).get("usage")
    if isinstance(reported, dict):
        event.usage = usage(reported)
        event.usage_only = choices == []
        event.engine = cloud_times(reported)
    if timings := payload.get("timings"):
        event.engine = engine_timings(mapping(timings))
    event.error |= is_error(payload, name)
    return event


def is_error(payload: dict[str, JSON], name: str) -> bool:
    """Whether a payload inside a 200 says that the answer failed, in any of the shapes seen."""
    return (
        name == "error"
        or bool(payload.get("error"))
        or payload.get("object") == "error"
        or payload.get("type") == "error"
        or ("detail" in payload and "choices" not in payload and len(payload) == 1)
    )


def usage(reported: dict[str, JSON]) -> Usage | None:
    """Token counts under OpenAI's names, of either of its interfaces; None for a placeholder."""
    prompt_details = mapping(
        reported.get("prompt_tokens_details") or reported.get("input_tokens_details")
    )
    output_details = mapping(
        reported.get("completion_tokens_details") or reported.get("output_tokens_details")
    )
    counts = Usage(
        prompt=first(reported, "prompt_tokens", "input_tokens"),
        output=first(reported, "completion_tokens", "output_tokens"),
        total=count(reported.get("total_tokens")),
        cached=first(prompt_details, "cached_tokens"),
        reasoning=first(output_details, "reasoning_tokens"),
    )
    if counts.cached is None:
        counts.cached = first(reported, "prompt_cache_hit_tokens", "cached_tokens")
    if counts.reasoning is None:
        counts.reasoning = count(reported.get("reasoning_tokens"))  # SGLang
    return counts if counts.prompt or counts.output or counts.total else None


def first(source: dict[str, JSON], *keys: str) -> int | None:
    """The first of the keys that holds a count."""
    return next((n for key in keys if (n := count(source.get(key))) is not None), None)


# llama.cpp, tools/server: result_timings. Its prompt_n leaves the cached tokens out.
_TIMINGS = {
    "prompt_n": ("prompt_tokens", 1.0),
    "cache_n": ("cached_prompt_tokens", 1.0),
    "predicted_n": ("output_tokens", 1.0),
    "prompt_ms": ("prompt_seconds", 1e-3),
    "predicted_ms": ("decode_seconds", 1e-3),
    "prompt_per_second": ("prefill_tokens_per_second", 1.0),
    "predicted_per_second": ("decode_tokens_per_second", 1.0),
    "draft_n": ("draft_tokens", 1.0),
    "draft_n_accepted": ("draft_tokens_accepted", 1.0),
}


def engine_timings(timings: dict[str, JSON]) -> dict[str, float] | None:
    """llama.cpp's `timings` under our names."""
    return figures(timings, _TIMINGS)


# Groq, in seconds, inside usage.
_TIMES = {
    "queue_time": ("queue_seconds", 1.0),
    "prompt_time": ("prompt_seconds", 1.0),
    "completion_time": ("decode_seconds", 1.0),
    "total_time": ("total_seconds", 1.0),
}


def cloud_times(reported: dict[str, JSON]) -> dict[str, float] | None:
    """Groq's and Cerebras' times under our names."""
    return figures(reported, _TIMES)


def figures(
    source: dict[str, JSON], names: dict[str, tuple[str, float]]
) -> dict[str, float] | None:
    """Numbers of `source` that `names` knows, each times its factor; None if there are none."""
    found = {
        ours: value * factor
        for theirs, (ours, factor) in names.items()
        if (value := number(source.get(theirs))) is not None
    }
    return found or None


ROWS = (
    Interface("chat", re.compile(r"/chat/completions/?$"), chat_call, chat_event),
    Interface("completions", re.compile(r"/completions/?$"), completions_call, completions_event),
)
