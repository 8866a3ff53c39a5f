"""The two engines: how each is started, what it offers, and what it counts itself."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from . import clients
from .environments import LLAMACPP, VLLM, prepare_llamacpp, prepare_vllm

Counters = dict[str, float]
PROCESSORS = os.cpu_count() or 1


@dataclass(frozen=True)
class Truth:
    """What the engine says about the streams between two readings of its counters.

    The times are means in seconds; None where the engine has no such number.
    """

    prompt_tokens: float
    output_tokens: float
    ttft: float | None
    tpot: float | None


@dataclass(frozen=True)
class Engine:
    """A server to be started and the numbers to be had from it."""

    name: str
    model: str
    dials: str
    command: list[str | Path]
    package: str
    output_counter: str
    truth: Callable[[Counters, int], Truth]
    interfaces: Mapping[str, clients.Call]
    max_tokens: tuple[int, int]  # from the shortest to the longest stream of a round
    reports_ttft: bool = False
    tpot_is_per_token: bool = False  # each stream weighs as much as it has tokens
    abandons: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


def vllm(port: int) -> Engine:
    command, model = prepare_vllm()
    return Engine(
        name="vllm",
        model="tiny-llama",
        dials="random-weight Llama, 3.8 million parameters, bfloat16, CPU",
        command=[
            *(command, "serve", model, "--host", "127.0.0.1", "--port", str(port)),
            *("--served-model-name", "tiny-llama", "--dtype", "bfloat16", "--enforce-eager"),
            *("--max-model-len", "2048", "--max-num-seqs", "16"),
        ],
        package=VLLM,
        output_counter="vllm:generation_tokens_total",
        truth=vllm_truth,
        interfaces={
            "chat": clients.chat,
            "completions": clients.completions,
            "responses": clients.responses,
        },
        max_tokens=(64, 128),
        reports_ttft=True,
        abandons=True,
        environment={
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{PROCESSORS - 1}",
        },
    )


def vllm_truth(moved: Counters, streams: int) -> Truth:
    def mean(histogram: str) -> float | None:
        count = moved.get(f"{histogram}_count", 0.0)
        return moved[f"{histogram}_sum"] / count if count else None

    return Truth(
        prompt_tokens=moved["vllm:prompt_tokens_total"],
        output_tokens=moved["vllm:generation_tokens_total"],
        ttft=mean("vllm:time_to_first_token_seconds"),
        # one value per stream, its decode time through all tokens but the first: our definition
        tpot=mean("vllm:request_time_per_output_token_seconds"),
    )


def llamacpp(port: int) -> Engine:
    command, model = prepare_llamacpp()
    return Engine(
        name="llamacpp",
        model="gemma3-270m",
        dials="Gemma 3 270M, Q4_K_M, CPU",
        command=[
            *(command, "-m", model, "--host", "127.0.0.1", "--port", str(port)),
            *("-c", "16384", "-np", "8", "-a", "gemma3-270m", "--metrics", "--jinja"),
            # Its threads wait for each other, so one that must share its processor with the
            # proxy or the clients slows all of them many times over: one is left free.
            *("--threads", str(max(1, PROCESSORS - 1))),
        ],
        package=LLAMACPP,
        output_counter="llamacpp:tokens_predicted_total",
        truth=llamacpp_truth,
        interfaces={
            "chat": clients.chat,
            "completions": clients.completions,
            "responses": clients.responses,
            "messages": clients.messages,
            "native": clients.native,
        },
        max_tokens=(32, 64),
        tpot_is_per_token=True,
    )


def llamacpp_truth(moved: Counters, streams: int) -> Truth:
    """The first token of each stream is counted, but the time before it is not decoding."""
    output = moved["llamacpp:tokens_predicted_total"]
    prompt = moved["llamacpp:prompt_tokens_total"]
    return Truth(
        prompt_tokens=prompt + moved.get("llamacpp:prompt_tokens_cached_total", 0.0),
        output_tokens=output,
        ttft=moved["llamacpp:prompt_seconds_total"] / streams,
        tpot=moved["llamacpp:tokens_predicted_seconds_total"] / (output - streams),
    )


ENGINES: Mapping[str, Callable[[int], Engine]] = {"vllm": vllm, "llamacpp": llamacpp}


async def read_counters(http: httpx.AsyncClient, url: str) -> Counters:
    """Every sample of a Prometheus page by name, summed over its labels."""
    page = (await http.get(url)).raise_for_status().text
    counters: Counters = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            counters[sample.name] = counters.get(sample.name, 0.0) + sample.value
    return counters


def moved_between(before: Counters, after: Counters) -> Counters:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}
