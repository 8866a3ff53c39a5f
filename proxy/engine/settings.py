"""What the simulated engine is told to be like: one field per setting."""

import re
from dataclasses import dataclass, field
from typing import Any

from proxy import __version__


def _setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that is a setting; see `proxy.settings` for the metadata."""
    return field(default=default, metadata=metadata)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("give names with commas between them, such as sim-8b,sim-70b")
    return names


def _release(text: str) -> str:
    if not re.fullmatch(r"[!-~]{1,64}", text):
        raise ValueError("give a version of plain ASCII without spaces, such as 2.0")
    return text


@dataclass(frozen=True)
class EngineSettings:
    """The running settings of the simulated engine. `proxy.engine.pace` has the formulas."""

    host: str = _setting("127.0.0.1", help="address to take requests on")
    port: int = _setting(0, least=0, most=65535, help="port to take requests on; 0: a free one")
    models: tuple[str, ...] = _setting(
        ("sim-8b",),
        unit="NAMES",
        shown="sim-8b",
        parse=_names,
        help="names of the models served, with commas between them",
    )
    ttft: float = _setting(
        0.2, unit="seconds", least=0, help="time to first token of an empty prompt"
    )
    rate: float = _setting(
        50.0, unit="tokens/s", least=0.01, help="decode rate of one lone user, tokens per second"
    )
    prefill_rate: float = _setting(
        5000.0,
        unit="tokens/s",
        least=0.01,
        help="prompt tokens per second: a long prompt makes the first token come later",
    )
    concurrency_slowdown: float = _setting(
        0.0, least=0, help="A: with N requests at once each gets rate / (1 + A (N - 1))"
    )
    context_slowdown: float = _setting(
        0.0, least=0, help="B: at a context of C tokens each gets rate / (1 + B C / 1000)"
    )
    max_concurrency: int = _setting(
        256, unit="requests", least=1, help="requests answered at once; more of them wait in line"
    )
    tokens_per_chunk: int = _setting(
        1, unit="tokens", least=1, help="tokens that leave together, as after speculation"
    )
    answer_tokens: int = _setting(
        128, unit="tokens", least=1, help="length of an answer that the request does not cut short"
    )
    reasoning: int = _setting(
        0, unit="tokens", least=0, help="tokens of reasoning before each answer"
    )
    tools: bool = _setting(
        False, help="answer with a tool call, also where the request does not demand one"
    )
    jitter: float = _setting(
        0.0, least=0, help="spread of every interval: standard deviation / mean, log-normal"
    )
    stall: float = _setting(0.0, least=0, most=1, help="share of streams that pause once")
    stall_seconds: float = _setting(3.0, unit="seconds", least=0, help="how long they pause")
    error_rate: float = _setting(
        0.0, least=0, most=1, help="share of requests that get a 429, a 500 or half an answer"
    )
    release: str = _setting(
        __version__,
        parse=_release,
        help="version that it says it is: another one is what a deploy looks like",
    )
    seed: int = _setting(0, help="what texts and chances are drawn from")
