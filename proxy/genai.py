"""Exchanges in the words of OpenTelemetry's conventions for generative AI.

Source: OpenTelemetry semantic conventions 1.41, "Generative AI": metrics and client spans. What the
proxy has to say beyond them is under `tokometer.`. No prompt, no answer, no key is in it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from proxy.address import Upstream
from proxy.channel import End
from proxy.labels import UNKNOWN, clean, status

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]


class Kind(NamedTuple):
    """What requests of an interface are: `gen_ai.operation.name` and `gen_ai.provider.name`.

    The provider is whose interface it is: who serves it is told by `server.address`.
    """

    operation: str
    provider: str


# By `api`. What is not here is no request to a model.
KINDS = {
    "chat": Kind("chat", "openai"),
    "completions": Kind("text_completion", "openai"),
    "responses": Kind("chat", "openai"),
    "messages": Kind("chat", "anthropic"),
    "ollama_chat": Kind("chat", "ollama"),
    "ollama_generate": Kind("text_completion", "ollama"),
    "llamacpp": Kind("text_completion", "llama.cpp"),
    "tgi": Kind("text_completion", "tgi"),
    "gemini": Kind("generate_content", "gcp.gen_ai"),
    "bedrock": Kind("chat", "aws.bedrock"),
    "cohere": Kind("chat", "cohere"),
    "sglang": Kind("text_completion", "sglang"),
    "embeddings": Kind("embeddings", "openai"),
    "rerank": Kind("rerank", "cohere"),
    "audio": Kind("audio", "openai"),
}


def common(upstream: Upstream, api: str, model: str) -> Attributes:
    """Attributes of a measurement; `model` is a label, left out where it is `unknown`."""
    kind = KINDS[api]
    attributes: Attributes = {
        "gen_ai.operation.name": kind.operation,
        "gen_ai.provider.name": kind.provider,
        "server.address": upstream.host,
        "server.port": upstream.port,
        "tokometer.upstream": upstream.name,
    }
    if model != UNKNOWN:
        attributes["gen_ai.request.model"] = attributes["gen_ai.response.model"] = model
    return attributes


def error_type(record: End) -> str | None:
    """`error.type`: the status of a rejection, else the outcome; None of what completed."""
    outcome = record["outcome"]
    if outcome == "completed":
        return None
    return (status(record.get("code")) or outcome) if outcome == "rejected" else outcome


def counted(record: End) -> dict[str, int]:
    """Tokens that somebody counted, by `gen_ai.token.type`: an estimate is no count."""
    if not record.get("answered"):
        return {}
    given = {"input": record.get("prompt_tokens")}
    if record.get("token_source") not in ("estimate", "none"):
        given["output"] = record.get("output_tokens")
    return {type: tokens for type, tokens in given.items() if tokens is not None}


def span_name(record: End, asked: str) -> str:
    """The operation and the model that was asked for, if one was."""
    return f"{KINDS[record['api']].operation} {asked}".strip()


def span_attributes(upstream: Upstream, record: End, asked: str) -> Attributes:
    """Attributes of the span of an exchange; `asked` is the model that was asked for, clean."""
    attributes = common(upstream, record["api"], UNKNOWN)
    answered = clean(record.get("model") or "") if record.get("answered") else ""
    tokens = counted(record)
    finish = record.get("finish_reason")
    found: Mapping[str, Value | None] = {
        "gen_ai.request.model": asked or None,
        "gen_ai.response.model": answered or None,
        "gen_ai.request.stream": record["stream"],
        "gen_ai.response.finish_reasons": [clean(finish)] if finish else None,
        "gen_ai.response.time_to_first_chunk": record.get("ttft_seconds"),
        "gen_ai.usage.input_tokens": tokens.get("input"),
        "gen_ai.usage.output_tokens": tokens.get("output"),
        "gen_ai.usage.cache_read.input_tokens": record.get("cached_prompt_tokens"),
        "gen_ai.usage.reasoning.output_tokens": record.get("reasoning_tokens"),
        "http.response.status_code": record.get("code"),
        "error.type": error_type(record),
        "tokometer.outcome": record["outcome"],
        "tokometer.request_id": record.get("request_id"),
        "tokometer.decode_tokens_per_second": record.get("decode_tokens_per_second"),
        "tokometer.token_source": record.get("token_source"),
    }
    return attributes | {name: value for name, value in found.items() if value is not None}
