"""Token counts under OpenAI's names, and what is only a placeholder for them."""

from typing import Any

import pytest

from proxy.formats.event import Usage
from proxy.formats.usage import usage


@pytest.mark.parametrize(
    "reported",
    [None, [], {}, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, {"cost": 0.1}],
)
def test_a_placeholder_is_no_count(reported: Any) -> None:
    assert usage(reported) is None


def test_a_count_of_nothing_generated_beside_a_prompt_is_kept() -> None:
    counts = usage({"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 21})
    assert counts == Usage(prompt=21, output=0, total=21)


def test_chat_details() -> None:
    assert usage(
        {
            **{"prompt_tokens": 12, "completion_tokens": 100, "total_tokens": 112},
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 90, "audio_tokens": 0},
        }
    ) == Usage(prompt=12, cached=4, cache_written=2, output=100, reasoning=90, total=112)


def test_responses_details() -> None:
    assert usage(
        {
            **{"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens_details": {"reasoning_tokens": 2},
        }
    ) == Usage(prompt=11, cached=3, output=5, reasoning=2, total=16)


def test_deepseeks_cache_hits() -> None:
    counts = usage({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 8})
    assert counts == Usage(prompt=9, cached=8, output=2)


def test_sglangs_null_details_and_reasoning_at_the_top() -> None:
    counts = usage(
        {
            **{"prompt_tokens": 19, "completion_tokens": 1720, "total_tokens": 1739},
            **{"prompt_tokens_details": None, "reasoning_tokens": 7},
        }
    )
    assert counts == Usage(prompt=19, output=1720, total=1739, reasoning=7)


def test_junk_in_the_details_is_passed_over() -> None:
    counts = usage(
        {"prompt_tokens": 9, "prompt_tokens_details": 3, "completion_tokens_details": "x"}
    )
    assert counts == Usage(prompt=9)
