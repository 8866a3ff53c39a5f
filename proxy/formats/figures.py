"""What engines say of their own speed, under our names and in our units (`event.ENGINE_KEYS`).

A figure of 0 says that nothing was measured and is left out, but for tokens that can be none.
"""

from collections.abc import Callable

from proxy.formats.event import JSON, mapping
from proxy.headers import Fields

# Their key: ours, and what theirs is multiplied with.
Names = dict[str, tuple[str, float]]

# Tokens of which there can really be none.
_CAN_BE_ZERO = ("cached_prompt_tokens", "draft_tokens_accepted")
# llama.cpp divides by a time of nearly 0 where it generated one token.
_MOST_PER_SECOND = 1e6


def number(value: JSON) -> float | None:
    """`value` if it is a measured quantity: finite and not negative. A text of digits is one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None


def figures(source: JSON, names: Names) -> dict[str, float] | None:
    """Numbers of `source` that `names` knows, each times its factor; None if there are none."""
    if not isinstance(source, dict):
        return None
    found: dict[str, float] = {}
    for theirs, (ours, factor) in names.items():
        value = number(source.get(theirs))
        if value is None or (not value * factor and ours not in _CAN_BE_ZERO):
            continue
        if ours.endswith("per_second") and value >= _MOST_PER_SECOND:
            continue
        found[ours] = value * factor
    return found if any(found.values()) else None


def _rate(amount: float, seconds: float) -> float | None:
    """Their quotient, unless no machine is that fast."""
    return amount / seconds if amount < _MOST_PER_SECOND * seconds else None


# llama.cpp, tools/server: result_timings. Its prompt_n leaves the cached tokens out.
_TIMINGS: Names = {
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


def timings(source: JSON) -> dict[str, float] | None:
    """llama.cpp's `timings`."""
    return figures(source, _TIMINGS)


# Groq inside `usage`, Cerebras at the top of the chunk as `time_info`; seconds.
_TIMES: Names = {
    "queue_time": ("queue_seconds", 1.0),
    "prompt_time": ("prompt_seconds", 1.0),
    "completion_time": ("decode_seconds", 1.0),
    "total_time": ("total_seconds", 1.0),
}


def cloud_times(source: JSON) -> dict[str, float] | None:
    """Groq's and Cerebras' times."""
    return figures(source, _TIMES)


# LM Studio's REST API: `stats` of v0 and of v1; seconds.
_STATS: Names = {
    "tokens_per_second": ("decode_tokens_per_second", 1.0),
    "time_to_first_token": ("ttft_seconds", 1.0),
    "time_to_first_token_seconds": ("ttft_seconds", 1.0),
    "generation_time": ("decode_seconds", 1.0),
    "model_load_time_seconds": ("load_seconds", 1.0),
}


def stats(source: JSON) -> dict[str, float] | None:
    """LM Studio's `stats`."""
    return figures(source, _STATS)


# Fireworks with `perf_metrics_in_response`; seconds, numbers or texts.
_PERF_METRICS: Names = {
    "server-time-to-first-token": ("ttft_seconds", 1.0),
    "server-processing-time": ("total_seconds", 1.0),
    "prefill-queue-duration": ("queue_seconds", 1.0),
    "prefill-duration": ("prompt_seconds", 1.0),
    "generation-duration": ("decode_seconds", 1.0),
}
# Dynamo, lib/llm/src/protocols/common/timing.rs: TimingInfo, in `nvext.timing`.
_DYNAMO: Names = {
    "prefill_wait_time_ms": ("queue_seconds", 1e-3),
    "prefill_time_ms": ("prompt_seconds", 1e-3),
    "ttft_ms": ("ttft_seconds", 1e-3),
    "total_time_ms": ("total_seconds", 1e-3),
}
# vLLM with --enable-per-request-metrics. Its time to first token begins when the request is
# scheduled, which is prefill in our words; its tokens per second are over prefill and decode.
_VLLM: Names = {
    "queue_time_ms": ("queue_seconds", 1e-3),
    "time_to_first_token_ms": ("prompt_seconds", 1e-3),
    "generation_time_ms": ("decode_seconds", 1e-3),
}


def _vllm(source: JSON) -> dict[str, float] | None:
    found = figures(source, _VLLM)
    gap = number(mapping(source).get("mean_itl_ms"))
    if found and gap and (rate := _rate(1e3, gap)):
        found["decode_tokens_per_second"] = rate
    return found


def _x_groq(source: JSON) -> dict[str, float] | None:
    return cloud_times(mapping(source).get("usage"))


def _nvext(source: JSON) -> dict[str, float] | None:
    return figures(mapping(source).get("timing"), _DYNAMO)


def _perf_metrics(source: JSON) -> dict[str, float] | None:
    return figures(source, _PERF_METRICS)


_BY_KEY: dict[str, Callable[[JSON], dict[str, float] | None]] = {
    "usage": cloud_times,
    "x_groq": _x_groq,
    "time_info": cloud_times,
    "stats": stats,
    "perf_metrics": _perf_metrics,
    "nvext": _nvext,
    "metrics": _vllm,
    "timings": timings,
}


def in_chunk(payload: dict[str, JSON]) -> dict[str, float] | None:
    """Whatever figures stand at the top of a chunk or answer in OpenAI's shape."""
    found: dict[str, float] = {}
    for key, read in _BY_KEY.items():
        if value := payload.get(key):
            found |= read(value) or {}
    return found or None


# Ollama, docs/api.md: durations are in nanoseconds.
_DURATIONS: Names = {
    "prompt_eval_duration": ("prompt_seconds", 1e-9),
    "eval_duration": ("decode_seconds", 1e-9),
    "load_duration": ("load_seconds", 1e-9),
    "total_duration": ("total_seconds", 1e-9),
}


def durations(source: dict[str, JSON]) -> dict[str, float] | None:
    """Ollama's durations, and the rate that its documentation makes of them.

    docs.ollama.com, API usage: tokens per second = eval_count / eval_duration * 10^9. The
    prompt's duration is that of its uncached tokens.
    """
    found = figures(source, _DURATIONS)
    if found is None:
        return None
    output = number(source.get("eval_count"))
    if output and (rate := _rate(output, found.get("decode_seconds", 0.0))):
        found["decode_tokens_per_second"] = rate
    prompt = number(source.get("prompt_eval_count")) or 0
    uncached = prompt - (number(source.get("prompt_eval_cached_count")) or 0)
    if uncached > 0 and (rate := _rate(uncached, found.get("prompt_seconds", 0.0))):
        found["prefill_tokens_per_second"] = rate
    return found


# Heads of answers. TGI, router/src/server.rs (milliseconds; its time per token holds the prefill
# and is no decode rate); Fireworks (seconds); OpenAI (milliseconds).
_IN_HEAD: dict[bytes, tuple[str, float]] = {
    b"x-prompt-tokens": ("prompt_tokens", 1.0),
    b"x-generated-tokens": ("output_tokens", 1.0),
    b"x-queue-time": ("queue_seconds", 1e-3),
    b"x-total-time": ("total_seconds", 1e-3),
    b"fireworks-server-time-to-first-token": ("ttft_seconds", 1.0),
    b"openai-processing-ms": ("total_seconds", 1e-3),
}


def in_head(fields: Fields) -> dict[str, float] | None:
    """What the head of an answer tells of the engine."""
    found = {}
    for theirs in _IN_HEAD.keys() & fields.names():
        ours, factor = _IN_HEAD[theirs]
        if value := number(fields[theirs]):
            found[ours] = value * factor
    return found or None
