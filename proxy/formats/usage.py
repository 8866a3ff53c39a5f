"""Token counts under OpenAI's names, which most of the others took over.

Source: OpenAI's API reference (`CompletionUsage`, `ResponseUsage`) and recordings of the dialects.
"""

from proxy.formats.event import JSON, Usage, count, first


def usage(reported: JSON) -> Usage | None:
    """The counts of a `usage` object; None for a placeholder, which is null or all zeros."""
    if not isinstance(reported, dict):
        return None
    counts = Usage(
        prompt=first(reported, "prompt_tokens", "input_tokens"),
        output=first(reported, "completion_tokens", "output_tokens"),
        total=count(reported.get("total_tokens")),
    )
    if not (counts.prompt or counts.output or counts.total):
        return None
    _prompt_details(counts, reported)
    _output_details(counts, reported)
    return counts


def _prompt_details(counts: Usage, reported: dict[str, JSON]) -> None:
    details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details")
    if isinstance(details, dict):
        counts.cached = count(details.get("cached_tokens"))
        # OpenAI and OpenRouter; vLLM.
        counts.cache_written = first(details, "cache_write_tokens", "created_cache_tokens")
    if counts.cached is None:  # DeepSeek; Moonshot
        counts.cached = first(reported, "prompt_cache_hit_tokens", "cached_tokens")


def _output_details(counts: Usage, reported: dict[str, JSON]) -> None:
    details = reported.get("completion_tokens_details") or reported.get("output_tokens_details")
    if isinstance(details, dict):
        counts.reasoning = count(details.get("reasoning_tokens"))
    if counts.reasoning is None:  # SGLang
        counts.reasoning = count(reported.get("reasoning_tokens"))
