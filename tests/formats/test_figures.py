"""Engines' own figures: known names, our units, nothing that was not measured."""

from typing import Any

import pytest

from proxy.formats.figures import durations, figures, in_chunk, in_head, number, stats, timings
from proxy.headers import Fields


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (2, 2.0), (0.5, 0.5), ("0.350", 0.35)])
def test_numbers_and_texts_of_digits_are_numbers(value: Any, expected: float) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", [None, True, -1, 1e15, "nan", "inf", "-2", "x", "", [1], {}])
def test_anything_else_is_no_number(value: Any) -> None:
    assert number(value) is None


def test_llamacpp_timings_are_in_our_units() -> None:
    assert timings(
        {
            **{"cache_n": 10, "prompt_n": 54, "prompt_ms": 200.0, "prompt_per_second": 270.0},
            **{"predicted_n": 3, "predicted_ms": 100.0, "predicted_per_second": 30.0},
            **{"draft_n": 8, "draft_n_accepted": 0, "prompt_per_token_ms": 3.7},
        }
    ) == {
        **{"cached_prompt_tokens": 10.0, "prompt_tokens": 54.0, "prompt_seconds": 0.2},
        **{"prefill_tokens_per_second": 270.0, "output_tokens": 3.0, "decode_seconds": 0.1},
        **{"decode_tokens_per_second": 30.0, "draft_tokens": 8.0, "draft_tokens_accepted": 0.0},
    }


def test_zeros_say_that_nothing_was_measured_but_for_tokens_that_can_be_none() -> None:
    zeros = {"cache_n": 0, "prompt_n": 0, "prompt_ms": 0.0, "predicted_n": 0, "predicted_ms": 0.0}
    assert timings(zeros) is None
    assert timings(zeros | {"prompt_n": 5}) == {"prompt_tokens": 5.0, "cached_prompt_tokens": 0.0}


def test_a_rate_over_no_time_is_no_rate() -> None:
    assert timings({"predicted_n": 1, "predicted_per_second": 1e6}) == {"output_tokens": 1.0}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (  # Groq
            {
                "usage": {
                    "queue_time": 0.05,
                    "prompt_time": 0.01,
                    "total_time": 1,
                    "prompt_tokens": 3,
                }
            },
            {"queue_seconds": 0.05, "prompt_seconds": 0.01, "total_seconds": 1.0},
        ),
        ({"x_groq": {"id": "r", "usage": {"completion_time": 0.4}}}, {"decode_seconds": 0.4}),
        (  # Cerebras
            {"time_info": {"queue_time": 0.0034, "completion_time": 0.22, "created": 1764500000}},
            {"queue_seconds": 0.0034, "decode_seconds": 0.22},
        ),
        (  # LM Studio, version 0
            {
                "stats": {
                    "tokens_per_second": 51.43,
                    "time_to_first_token": 0.111,
                    "stop_reason": "eos",
                }
            },
            {"decode_tokens_per_second": 51.43, "ttft_seconds": 0.111},
        ),
        (  # Fireworks
            {"perf_metrics": {"server-time-to-first-token": "0.042", "generation-duration": 0.031}},
            {"ttft_seconds": 0.042, "decode_seconds": 0.031},
        ),
        (  # Dynamo
            {
                "nvext": {
                    "timing": {"prefill_wait_time_ms": 4.0, "ttft_ms": 80.0, "kv_hit_rate": 0.5}
                }
            },
            {"queue_seconds": 0.004, "ttft_seconds": 0.08},
        ),
        (  # vLLM: its tokens per second are over prefill too
            {
                "metrics": {
                    "time_to_first_token_ms": 40.0,
                    "mean_itl_ms": 20.0,
                    "tokens_per_second": 9,
                }
            },
            {"prompt_seconds": 0.04, "decode_tokens_per_second": 50.0},
        ),
    ],
)
def test_figures_in_chunks_of_each_dialect(
    payload: dict[str, Any], expected: dict[str, float]
) -> None:
    assert in_chunk(payload) == pytest.approx(expected)


@pytest.mark.parametrize(
    "payload",
    [{}, {"usage": {"prompt_tokens": 3}}, {"timings": []}, {"stats": {}}, {"nvext": {"timing": 3}}],
)
def test_a_chunk_without_figures_has_none(payload: dict[str, Any]) -> None:
    assert in_chunk(payload) is None


def test_lm_studios_stats_of_version_1() -> None:
    assert stats({"tokens_per_second": 40.5, "time_to_first_token_seconds": 0.25}) == {
        "decode_tokens_per_second": 40.5,
        "ttft_seconds": 0.25,
    }


def test_ollamas_rates_follow_from_its_counts_and_durations() -> None:
    found = durations(
        {
            **{"prompt_eval_count": 26, "prompt_eval_cached_count": 6, "eval_count": 259},
            **{"prompt_eval_duration": 200_000_000, "eval_duration": 4_232_710_000},
        }
    )
    assert found is not None
    assert found["decode_tokens_per_second"] == pytest.approx(259 / 4.23271)
    assert found["prefill_tokens_per_second"] == pytest.approx(100.0)


def test_ollama_without_durations_or_counts_has_no_rates() -> None:
    assert durations({"eval_count": 3}) is None
    assert durations({"eval_duration": 10**9}) == {"decode_seconds": 1.0}
    cached = {"prompt_eval_count": 6, "prompt_eval_cached_count": 6, "prompt_eval_duration": 10**9}
    assert durations(cached) == {"prompt_seconds": 1.0}


def test_figures_of_something_else_are_none() -> None:
    assert figures(None, {"a": ("total_seconds", 1.0)}) is None
    assert figures({"a": "x"}, {"a": ("total_seconds", 1.0)}) is None


def test_heads_of_answers() -> None:
    tgi = [(b"X-Queue-Time", b"12"), (b"x-generated-tokens", b"20"), (b"x-total-time", b"812")]
    tgi += [(b"x-prompt-tokens", b"7"), (b"x-time-per-token", b"40"), (b"x-inference-time", b"800")]
    assert in_head(Fields(tgi)) == pytest.approx(
        {
            "queue_seconds": 0.012,
            "output_tokens": 20,
            "total_seconds": 0.812,
            "prompt_tokens": 7,
        }
    )
    assert in_head(Fields([(b"openai-processing-ms", b"250")])) == {"total_seconds": 0.25}
    assert in_head(Fields([(b"x-queue-time", b"soon"), (b"x-total-time", b"-1")])) is None
    assert in_head(Fields([])) is None
