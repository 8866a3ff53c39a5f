"""The decode rate, (N - n1) / (t_last - t_first), and why there may be none."""

import pytest
from playing import Script, play
from wire import (
    DONE,
    MODEL,
    called,
    chunk,
    completion,
    counts,
    finished,
    role,
    said,
    sse,
    thought,
    used,
)

N2 = {"stream": True, "n": 2, "messages": []}
SSE_ENDS = [(5000.0, DONE)]


def rate(script: Script, path: str = "/v1/chat/completions", **more: object) -> float | None:
    return play(script, path, **more).rate  # type: ignore[arg-type]


def per_second(tokens: float, milliseconds: float) -> object:
    return pytest.approx(tokens * 1000 / milliseconds, rel=1e-9)


def test_chunks_are_not_tokens() -> None:
    texts = [(100.0 * i, said("abcd")) for i in range(1, 11)]
    played = play([(10, role()), *texts, (1001, finished()), (1002, used(5, 40)), (1002, DONE)])
    assert played.rate == per_second(36, 900)
    assert played.skipped is None


def test_prefill_is_not_in_the_rate() -> None:
    texts = [(800.0 + 40 * i, said("ab")) for i in range(11)]
    script = [(10, role()), *texts, (1201, finished()), (1202, used(2000, 11))]
    assert rate(script) == per_second(10, 400)


def test_time_after_the_last_output_is_not_in_the_rate() -> None:
    assert rate([(100, said("a")), (200, said("b")), (900, finished()), (950, used(1, 2))]) == (
        per_second(1, 100)
    )


def test_reasoning_is_in_the_rate() -> None:
    script = [(200, thought("We")), (260, thought("go")), (600, said("42")), (602, used(5, 3))]
    assert rate(script) == per_second(2, 400)


def test_tool_calls_are_in_the_rate() -> None:
    script = [(200, called("abcd")), (300, called("", "efgh")), (500, called("", "ijkl"))]
    assert rate([*script, (501, used(9, 12))]) == per_second(8, 300)


def test_a_burst_after_a_stall_counts_whole() -> None:
    steady = [(20.0 * i + 20, said("a")) for i in range(20)]
    script = [*steady, (1000, said("b" * 500)), (1001, finished()), (1002, used(9, 520))]
    assert rate(script) == per_second(519, 980)


def test_tokens_of_the_first_event_are_told_by_its_characters() -> None:
    # 10 of 40 characters, so 5 of 20 tokens
    assert rate([(100, said("a" * 10)), (300, said("b" * 30)), (301, used(3, 20))]) == (
        per_second(15, 200)
    )


def test_the_first_event_holds_one_token_at_least() -> None:
    assert rate([(100, said("a")), (300, said("b" * 99)), (301, used(3, 20))]) == (
        per_second(19, 200)
    )


def test_only_the_first_event_of_the_first_read_is_taken_off() -> None:
    script = [(100, said("a") + said("b")), (300, said("c")), (301, used(3, 3))]
    assert rate(script) == per_second(2, 200)


def test_characters_are_counted_not_bytes() -> None:
    assert rate([(100, said("日本")), (300, said("ab")), (301, used(3, 4))]) == per_second(2, 200)


def test_growing_usage_tells_exactly_what_the_first_event_held() -> None:
    script = [
        (100, said("a" * 50, usage=counts(7, 3))),
        (200, said("b", usage=counts(7, 5))),
        (300, said("c", usage=counts(7, 9))),
        (301, finished(usage=counts(7, 9))),
    ]
    assert rate(script) == per_second(6, 200)


def test_tokens_that_a_parser_swallowed_belong_to_the_first_event_that_shows_them() -> None:
    script = [
        (100, role(usage=counts(7, 0))),
        (200, sse(chunk({}, usage=counts(7, 4)))),
        (300, said("a", usage=counts(7, 6))),
        (400, said("b", usage=counts(7, 10))),
        (401, finished(usage=counts(7, 10))),
    ]
    assert rate(script) == per_second(4, 100)


def ids(text: str, *tokens: int, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "token_ids": list(tokens)}
    return sse({"model": MODEL, "choices": [choice]})


def likely(text: str, tokens: int) -> bytes:
    found = [{"token": "x", "logprob": -0.1}] * tokens
    choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": found}}
    return sse({"model": MODEL, "choices": [choice]})


def test_token_ids_tell_exactly_what_the_first_event_held() -> None:
    script = [(100, ids("a" * 50, 1, 2, 3)), (200, ids("b", 4, 5)), (201, used(3, 5))]
    assert rate(script) == per_second(2, 100)


def test_log_probabilities_tell_exactly_what_the_first_event_held() -> None:
    script = [(100, likely("a" * 50, 2)), (200, likely("b", 7)), (201, used(3, 9))]
    assert rate(script) == per_second(7, 100)


def test_token_ids_without_text_belong_to_the_first_event_with_it() -> None:
    script = [(50, ids("", 1, 2)), (100, ids("a", 3)), (200, ids("b", 4, 5)), (201, used(3, 5))]
    assert rate(script) == per_second(2, 100)


def test_of_several_choices_the_first_event_holds_only_its_own_tokens() -> None:
    script = [(50, ids("", 9, index=1)), (100, ids("a", 1, 2)), (200, ids("b", 3, index=1))]
    assert rate([*script, (201, used(3, 10))], asked=N2) == per_second(8, 100)
    growing = [
        (100, sse(chunk({"content": "a"}, usage=counts(3, 2)))),
        (200, sse(chunk({"content": "b"}, index=1, usage=counts(3, 6)))),
        (201, used(3, 8)),
    ]
    assert rate(growing, asked=N2) == per_second(6, 100)


def test_reasoning_that_is_not_sent_is_not_decoded_between_first_and_last_output() -> None:
    # 10 of 300 tokens were sent, in five events of the same length
    texts = [(2000.0 + 100 * n, said("abcdefgh")) for n in range(5)]
    unseen = {"completion_tokens_details": {"reasoning_tokens": 290}}
    assert rate([*texts, (2500, used(9, 300, **unseen))]) == per_second(8, 400)
    assert rate([(1900, thought("a")), *texts, (2500, used(9, 300, **unseen))]) == (
        per_second(300 - 300 / 41, 500)
    )
    unseen["completion_tokens_details"]["reasoning_tokens"] = 400
    assert play([*texts, (2500, used(9, 300, **unseen))]).skipped == "one_token"


def test_text_repeated_whole_in_each_event_counts_once() -> None:
    def so_far(text: str, tokens: int, finish: object = None, index: int = 0) -> bytes:
        meta = {"prompt_tokens": 6, "completion_tokens": tokens, "finish_reason": finish}
        return sse({"text": text, "index": index, "meta_info": meta})

    stop = {"type": "stop"}
    asked = {"text": "x", "stream": True}
    script = [(200, so_far("ab", 1)), (400, so_far("abcd", 3, stop)), (401, DONE)]
    played = play(script, "/generate", asked)
    assert played.rate == per_second(2, 200)
    assert (played.meter.output.characters, played.meter.output.events) == (4, 2)

    # the shorter of two texts grows too
    two = [
        (100, so_far("abcdef", 3)),
        (200, so_far("gh", 1, index=1)),
        (300, so_far("ghi", 2, stop, 1)),
    ]
    two.append((310, so_far("abcdefj", 4, stop)))
    played = play(two, "/generate", asked | {"sampling_params": {"n": 2}})
    assert (played.meter.output.characters, played.meter.output.events) == (10, 4)
    assert played.gaps == [100, 100, 10]
    assert (played.totals.output, played.totals.source) == (6, "usage")


def test_a_diffusing_answer_replaces_its_text() -> None:
    asked = {"stream": True, "diffusing": True, "messages": []}
    script = [(100, said("xxxx")), (200, said("ayyyyy")), (300, said("abcdef")), (400, finished())]
    played = play(script, asked=asked)
    assert (played.ttft, played.meter.output.characters) == (100, 6)


# --- no rate --------------------------------------------------------------------------------------


def test_one_token_has_no_rate() -> None:
    played = play([(10, role()), (200, said("Yes") + finished()), (201, used(9, 1)), (201, DONE)])
    assert (played.rate, played.skipped, played.ttft) == (None, "one_token", 200)


def test_one_token_in_two_events_has_no_rate() -> None:
    played = play([(100, said("a")), (200, said("b")), (201, used(9, 1))])
    assert (played.rate, played.skipped) == (None, "one_token")


def test_one_burst_has_no_rate() -> None:
    burst = b"".join(said(letter) for letter in "abcde")
    played = play([(10, role()), (200, burst + finished()), (201, used(9, 5)), (201, DONE)])
    assert (played.rate, played.skipped, played.totals.output) == (None, "one_read", 5)


def test_no_time_between_two_reads_has_no_rate() -> None:
    played = play([(200, said("ab")), (200, said("cd")), (201, used(9, 5))])
    assert (played.rate, played.skipped) == (None, "one_read")


def test_all_tokens_in_the_first_event_have_no_rate() -> None:
    script = [(100, said("abc", usage=counts(7, 3))), (200, said("", usage=counts(7, 3)))]
    played = play([*script, (300, said(" ")), (301, used(7, 3))])
    assert (played.rate, played.skipped) == (None, "one_token")


def test_no_output_has_no_rate() -> None:
    played = play([(100, role()), (200, finished()), (201, used(9, 0)), (202, DONE)])
    assert (played.rate, played.skipped) == (None, "no_output")


def test_without_a_count_there_is_no_rate() -> None:
    meter = play([(100, said("a")), (200, said("b"))]).meter
    assert meter.decode_rate(None) == (None, "no_count")


def test_completions_have_a_rate() -> None:
    script = [(100, completion("ab")), (300, completion("cd", "stop", usage=counts(4, 2)))]
    assert rate([*script, *SSE_ENDS], "/v1/completions") == per_second(1, 200)
