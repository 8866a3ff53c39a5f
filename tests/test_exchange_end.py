"""The end of an exchange: every number of it, and nothing where a number is not known."""

import math
from typing import Any

import orjson
import pytest
from exchanges import OURS, WALL, arrived, ended, headed, misfits, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import ASK, EVENTS, JSON, T0
from wire import DONE, body, chunk, counts, finished, role, said, sse, thought, used

from proxy.channel import End, Output
from proxy.outcome import Outcome
from proxy.tokens import Learned

MODEL = ASK | {"model": "m-asked"}


def answered(*reads: tuple[float, bytes], outcome: Outcome = Outcome.COMPLETED) -> dict[str, Any]:
    exchange = opened(asked=MODEL)
    headed(exchange)
    arrived(exchange, *reads)
    return ended(exchange, outcome)


STREAM = [
    (50.0, role()),
    (200.0, thought("We")),
    (260.0, said("go")),
    (3000.0, said("42")),
    (3001.0, finished()),
    (3002.0, used(2000, 6, prompt_tokens_details={"cached_tokens": 1000}, reasoning_tokens=2)),
    (3100.0, DONE),
]


def test_an_end_tells_everything() -> None:
    end = answered(*STREAM)
    assert end == {
        "kind": "end",
        "id": 1,
        "time": WALL,
        "at": T0 + 3.1,
        "request_id": OURS,
        "upstream": "up",
        "model": "m-1",
        "api": "chat",
        "stream": True,
        "outcome": "completed",
        "code": 200,
        "answered": True,
        "headers_seconds": pytest.approx(0.01),
        "ttft_seconds": pytest.approx(0.2),
        "ttfv_seconds": pytest.approx(0.26),
        "first_at": pytest.approx(T0 + 0.2),
        "last_at": pytest.approx(T0 + 3.0),
        "decode_tokens_per_second": pytest.approx(4 / 2.8),
        "decode_characters_per_second": pytest.approx(4 / 2.8),
        "tokens_per_chunk": 2,
        "prefill_tokens_per_second": pytest.approx(1000 / 0.2),
        "duration_seconds": pytest.approx(3.1),
        "client_wait_seconds": 0.0,
        "prompt_tokens": 2000,
        "cached_prompt_tokens": 1000,
        "output_tokens": 6,
        "reasoning_tokens": 2,
        "output_characters": 6,
        "token_source": "usage",
        "chunks": 7,
        "max_gap_seconds": pytest.approx(2.74),
        "stalls": 1,
        "stalled_seconds": pytest.approx(2.74),
        "context": 2000,
        "finish_reason": "stop",
    }
    assert misfits(end, End) == []


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.COMPLETED])
def test_without_completion_there_are_no_speeds(outcome: Outcome) -> None:
    end = answered(*STREAM[:4], outcome=outcome)
    assert (end["outcome"], end["skipped"]) == (outcome.value, "not_completed")
    assert end.keys().isdisjoint({"decode_tokens_per_second", "prefill_tokens_per_second"})
    assert end["ttft_seconds"] == pytest.approx(0.2)
    assert (end["token_source"], end["output_tokens"], end["context"]) == ("estimate", 3, 1)


def test_why_nothing_could_be_read_is_told_whatever_the_outcome() -> None:
    reads = [(100.0, said("a")), (200.0, sse("{oops"))]
    assert answered(*reads, outcome=Outcome.TRUNCATED)["skipped"] == "malformed"


def test_a_rate_or_the_reason_why_there_is_none() -> None:
    end = answered((100.0, said("a") + finished()), (101.0, used(9, 1)), (102.0, DONE))
    assert end["skipped"] == "one_token"
    assert "decode_tokens_per_second" not in end
    assert end["prefill_tokens_per_second"] == pytest.approx(90)


def test_a_prompt_that_was_all_cached_has_no_prefill_rate() -> None:
    cached = used(9, 1, prompt_tokens_details={"cached_tokens": 9})
    assert "prefill_tokens_per_second" not in answered((100.0, said("a")), (101.0, cached))


def test_one_token_that_was_not_cached_has_one() -> None:
    end = answered(
        (100.0, said("a")), (101.0, used(9, 1, prompt_tokens_details={"cached_tokens": 8}))
    )
    assert end["prefill_tokens_per_second"] == pytest.approx(10)


def test_output_in_one_read_has_no_gap() -> None:
    end = answered((100.0, said("a") + said("b")), (101.0, finished()))
    assert end.keys().isdisjoint({"max_gap_seconds", "stalled_seconds"})
    assert end["stalls"] == 0


def test_the_clients_wait_is_told() -> None:
    exchange = opened()
    headed(exchange)
    exchange.meter.waited(1.5)
    exchange.meter.waited(0.5)
    assert ended(exchange)["client_wait_seconds"] == 2.0


def test_an_answer_that_is_no_stream_has_counts_and_no_times_of_output() -> None:
    exchange = opened(asked={"messages": []})
    headed(exchange, JSON)
    whole = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    arrived(exchange, (100, body(whole | {"usage": counts(9, 2)})))
    end = ended(exchange)
    assert (end["stream"], end["output_tokens"], end["prompt_tokens"]) == (False, 2, 9)
    assert (end["output_characters"], end["finish_reason"]) == (2, "stop")
    assert end["duration_seconds"] == pytest.approx(0.1)
    times = {"ttft_seconds", "ttfv_seconds", "first_at", "last_at", "stalls", "skipped"}
    assert end.keys().isdisjoint(times | {"max_gap_seconds", "prefill_tokens_per_second"})


def test_a_whole_answer_without_a_count_is_unknown_until_something_is_learned() -> None:
    learned = Learned()

    def tokens() -> tuple[Any, Any]:
        exchange = opened(asked={"messages": []}, learned=learned)
        headed(exchange, JSON)
        arrived(exchange, (100, body({"choices": [{"message": {"content": "a" * 100}}]})))
        end = ended(exchange)
        return end.get("output_tokens"), end["token_source"]

    assert tokens() == (None, "none")
    learned.learn_output(30, 60, 10)
    assert tokens() == (50, "estimate")


def test_an_exchange_that_nothing_answered_knows_nothing_of_an_answer() -> None:
    exchange = opened(asked={"stream": True, "messages": []})
    end = ended(exchange, Outcome.CLIENT_CLOSED)
    assert end == {
        "kind": "end",
        "id": 1,
        "time": WALL,
        "at": T0,
        "request_id": OURS,
        "upstream": "up",
        "api": "chat",
        "stream": True,
        "outcome": "client_closed",
        "answered": False,
        "client_wait_seconds": 0.0,
        "token_source": "none",
        "chunks": 0,
        "stalls": 0,
    }


def test_a_failure_of_ours_has_a_code_and_no_model_of_an_answer() -> None:
    exchange = opened(asked=MODEL)
    exchange.code, exchange.t_end = 502, T0 + 5
    end = ended(exchange, Outcome.UNREACHABLE)
    assert (end["code"], end["answered"], end["model"]) == (502, False, "m-asked")
    assert end["duration_seconds"] == pytest.approx(5)
    assert end.keys().isdisjoint({"headers_seconds", "skipped"})


def test_a_rejection_is_no_stream_and_skips_nothing() -> None:
    exchange = opened()
    headed(exchange, JSON, 429)
    arrived(exchange, (20, body({"error": {"message": "slow down"}})))
    end = ended(exchange, Outcome.REJECTED)
    assert (end["stream"], end["code"], end["answered"]) == (False, 429, False)
    assert end["headers_seconds"] == pytest.approx(0.01)
    assert "skipped" not in end


def test_a_rejection_in_the_shape_of_a_stream_skips_nothing_either() -> None:
    exchange = opened()
    headed(exchange, EVENTS, 500)
    arrived(exchange, (20, sse({"error": "x"})))
    end = ended(exchange, Outcome.REJECTED)
    assert end["stream"] is True
    assert end.keys().isdisjoint({"skipped", "ttft_seconds"})


def test_an_answer_that_came_before_the_request_was_complete_was_not_timed() -> None:
    exchange = opened()
    headed(exchange)
    arrived(exchange, (20, said("a")), (30, said("b")))
    exchange.uploaded(T0 + 1)
    progress = exchange.progress()
    assert progress is not None and "ttft_seconds" not in progress
    end = ended(exchange)
    timed = {"headers_seconds", "ttft_seconds", "duration_seconds", "prefill_tokens_per_second"}
    assert end.keys().isdisjoint(timed)
    assert end["decode_tokens_per_second"] == pytest.approx(100)


def test_a_finish_reason_is_no_text() -> None:
    end = answered((100.0, said("a")), (101.0, finished("x" * 5000)))
    assert end["finish_reason"] == "x" * 64


def test_the_engines_own_figures_are_told() -> None:
    timings = {"predicted_n": 3, "predicted_ms": 100.0, "predicted_per_second": 30.0}
    end = answered((100.0, said("a")), (101.0, finished(timings=timings)))
    assert end["engine"] == {
        "output_tokens": 3.0,
        "decode_seconds": pytest.approx(0.1),
        "decode_tokens_per_second": 30.0,
    }
    assert misfits(end, End) == []


def test_the_context_is_estimated_with_what_the_model_has_taught() -> None:
    learned = Learned()
    learned.learn_prompt(300, 100)
    end = ended(opened(asked=ASK, learned=learned), Outcome.UNREACHABLE)  # five characters
    assert end["context"] == 15
    assert "prompt_tokens" not in end


def test_a_completed_exchange_teaches_its_model() -> None:
    learned = Learned()
    for outcome, taught in ((Outcome.TRUNCATED, 1), (Outcome.COMPLETED, 200)):
        exchange = opened(learned=learned)
        headed(exchange)
        arrived(exchange, (100, said("abcd")), (200, used(9, 8)))
        ended(exchange, outcome)
        assert learned.output(100, 1) == taught


EVENT = st.sampled_from(
    [
        role(),
        said("a"),
        thought("b"),
        finished(),
        used(9, 4),
        used(0, 0),
        DONE,
        sse("{oops"),
        sse({"error": "x"}),
        said("c", usage=counts(9, 2)),
        sse(chunk({"content": "d"}, index=1)),
        finished(timings={"predicted_n": 2, "predicted_ms": 3.5, "cache_n": 0}),
        b"data: {",
    ]
)


@given(
    st.lists(st.tuples(st.floats(0, 9000), EVENT), max_size=8),
    st.sampled_from([200, 204, 302, 404, 500]),
    st.sampled_from([EVENTS, JSON, "text/plain"]),
    st.sampled_from(list(Outcome)),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_every_record_is_as_the_channel_has_it_and_holds_no_unknown(
    reads: list[tuple[float, bytes]], status: int, kind: str, outcome: Outcome, looked_at: bool
) -> None:
    exchange = opened()
    headed(exchange, kind, status)
    tokens = characters = 0
    for read in sorted(reads):
        arrived(exchange, read)
        progress = exchange.progress() if looked_at else None
        if progress is not None:
            assert misfits(progress, Output) == []
            tokens += progress["tokens"]
            characters += progress["characters"]
    end = ended(exchange, outcome)
    assert misfits(end, End) == []
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in end.values())
    assert orjson.loads(orjson.dumps(end)) == end
    assert characters <= end.get("output_characters", 0)
    assert ("skipped" in end) + ("decode_tokens_per_second" in end) == (
        end["stream"] and end["answered"]
    )
    for key in ("ttft_seconds", "duration_seconds", "max_gap_seconds", "stalled_seconds"):
        assert end.get(key, 1) > 0 or key == "ttft_seconds"
