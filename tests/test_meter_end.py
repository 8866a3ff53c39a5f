"""How an answer ends, errors in it, and what cannot be read."""

from typing import Any

import pytest
from playing import ASK, JSON, LINES, play
from wire import DONE, body, chunk, completion, counts, finished, line, role, said, sse, used

from proxy.framing import MAX_EVENT_BYTES

TWO = ASK | {"n": 2}


def ended(*reads: bytes, **more: Any) -> bool:
    return play([(100.0 * n, data) for n, data in enumerate(reads)], **more).meter.ended


@pytest.mark.parametrize(
    "terminator",
    [
        DONE,
        b"data:[DONE]\n\n",
        b"data: [DONE]\r\n\r\n",
        b"data: [DONE]\n",
        b"data: [DONE]",
        b"data:  [DONE] \n\n",
        sse("[DONE]", "done"),
        finished(),
        finished("length"),
        said("b", usage=counts(1, 2)) + finished("tool_calls"),
        sse(chunk({"content": "b"}, "stop")),
    ],
)
def test_the_logical_end_is_seen(terminator: bytes) -> None:
    played = play([(100, said("a")), (200, terminator)])
    assert (played.meter.ended, played.meter.error) == (True, False)
    assert played.skipped != "malformed"


@pytest.mark.parametrize("reads", [(), (role(),), (said("a"),), (said("a"), used(1, 2))])
def test_no_logical_end_is_seen(reads: tuple[bytes, ...]) -> None:
    assert not ended(*reads)


def test_an_answer_ends_with_its_last_choice() -> None:
    def end(index: int) -> bytes:
        return sse(chunk({}, "stop", index))

    begin = [role(), sse(chunk({"role": "assistant"}, None, 1)), said("a")]
    assert not ended(*begin, end(0), asked=TWO)
    assert ended(*begin, end(0), end(1), asked=TWO)
    assert ended(*begin, end(0), DONE, asked=TWO)


def test_choices_that_were_asked_for_and_never_came_are_missing() -> None:
    assert not ended(said("a"), finished(), asked=TWO)
    assert ended(said("a"), finished(), DONE, asked=TWO)  # by a server that knows no `n`


def test_a_choice_that_ends_twice_does_not_end_another() -> None:
    other = sse(chunk({"content": "b"}, None, 1))
    assert not ended(said("a"), finished(), other, finished(), asked=TWO)
    assert not ended(other, finished(), finished(), asked=TWO)
    assert ended(other, finished(), finished(), sse(chunk({}, "stop", 1)), asked=TWO)


def test_choices_may_end_in_one_event() -> None:
    choices = [{"index": n, "delta": {"content": "a"}, "finish_reason": "stop"} for n in (0, 1)]
    assert ended(sse({"choices": choices}), asked=TWO)
    assert not ended(sse({"choices": choices[:1]}), asked=TWO)


def test_the_last_finish_reason_is_told() -> None:
    assert play([(1, finished("length")), (2, DONE)]).meter.finish == "length"
    assert play([(1, said("a"))]).meter.finish is None


@pytest.mark.parametrize(
    "error",
    [
        sse({"error": {"message": "out of memory", "type": "server_error", "code": 500}}),
        sse({"error": "out of memory"}),
        sse({"error": {"message": "x"}, "choices": [{"index": 0, "finish_reason": "error"}]}),
        sse({"object": "error", "message": "out of memory", "code": 500}),
        sse({"type": "error", "message": "overloaded"}, "error"),
        sse({"message": "overloaded"}, "error"),
        sse({"detail": "out of memory"}),
        b'error: {"code":500,"message":"out of memory"}\n\n',
        finished("error"),
    ],
)
def test_an_error_inside_a_200_is_one(error: bytes) -> None:
    played = play([(50, role()), (100, said("ab")), (200, error), (201, DONE)])
    assert played.meter.error
    assert played.ttft == 100


@pytest.mark.parametrize("harmless", [{"error": None}, {"error": ""}, {"error": {}}, {"detail": 1}])
def test_what_only_looks_like_an_error_is_none(harmless: dict[str, Any]) -> None:
    assert not play([(100, said("a", **harmless)), (200, DONE)]).meter.error


def test_an_error_in_a_whole_answer_is_one() -> None:
    assert play([(100, body({"error": {"message": "x"}}))], kind=JSON).meter.error


def test_an_empty_stream_tells_nothing() -> None:
    played = play([])
    assert (played.ttft, played.meter.ended, played.skipped) == (None, False, "no_output")
    assert played.totals == ("none", None, None, None, None)
    assert (played.meter.chunks, played.meter.output.events, played.meter.progress()) == (
        0,
        0,
        None,
    )


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["{oops", '{"a":', "{]}", "[" * 5000])
def test_an_event_that_is_no_json_leaves_no_rate(broken: str) -> None:
    script = [
        (100, said("a")),
        (150, sse(broken)),
        (200, said("b")),
        (201, used(7, 2)),
        (202, DONE),
    ]
    played = play(script)
    assert (played.rate, played.skipped) == (None, "malformed")
    assert (played.ttft, played.totals.output, played.totals.source) == (100, 2, "usage")
    assert played.meter.ended


@pytest.mark.parametrize("word", ["keep-alive", "data", "ping", ": comment", "1"])
def test_a_word_that_keeps_the_connection_alive_is_nothing(word: str) -> None:
    script = [(100, said("a")), (150, sse(word)), (200, said("b")), (201, used(7, 2)), (202, DONE)]
    played = play(script)
    assert (played.skipped, played.totals.output) == (None, 2)


@pytest.mark.parametrize("empty", ["", " ", "null", "1", '"text"', "[]", "[1]"])
def test_json_that_is_no_object_does_no_harm(empty: str) -> None:
    played = play([(100, said("a")), (150, sse(empty)), (200, said("b")), (201, used(7, 2))])
    assert (played.gaps, played.skipped) == ([100], None)


@pytest.mark.parametrize(
    "odd",
    [
        b'{"choices":[{"delta":{"content":"b"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}',
        b'{"choices":[{"delta":{"content":"b"},"x":NaN}]}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\uDE00"}}]}',
        b'{"choices":[{"delta":{"content":"\xf0"}}]}',
    ],
)
def test_what_some_servers_write_for_json_is_read(odd: bytes) -> None:
    played = play([(100, said("a")), (200, b"data: " + odd + b"\n\n"), (201, used(7, 2))])
    assert played.rate == pytest.approx(10)
    assert (played.gaps, played.meter.output.characters) == ([100], 2)


def test_names_with_half_a_character_can_be_told() -> None:
    named = b'data: {"model":"m\\ud83d","choices":[{"delta":{"content":"a"}}]}\n\n'
    model = play([(100, named)]).meter.model
    assert model == "m�"


def test_an_unfinished_event_over_the_limit_ends_the_reading() -> None:
    script = [(100, said("a")), (200, said("b")), (300, b"data: " + b"x" * MAX_EVENT_BYTES)]
    played = play([*script, (400, b"\n\n" + said("c")), (500, DONE)])
    assert (played.rate, played.skipped) == (None, "too_large")
    assert (played.ttft, played.meter.output.events, played.meter.chunks) == (100, 2, 5)
    assert not played.meter.readable


def test_an_event_up_to_the_limit_is_read() -> None:
    text = said("a" * (MAX_EVENT_BYTES - 300))
    played = play([(100, said("a")), (200, text[:-1]), (300, text[-1:]), (301, used(7, 9))])
    assert (played.gaps, played.skipped) == ([200], None)


def test_an_unknown_content_encoding_leaves_nothing_to_read() -> None:
    played = play([(100, said("a")), (200, said("b"))], encoding="x-secret")
    assert (played.ttft, played.rate, played.skipped) == (None, None, "encoding")
    assert (played.meter.readable, played.meter.chunks) == (False, 2)


def test_bytes_that_are_not_encoded_as_they_say_leave_nothing_to_read() -> None:
    played = play([(100, said("a")), (200, said("b"))], encoding="gzip")
    assert (played.ttft, played.skipped, played.meter.readable) == (None, "encoding", False)


def test_answers_of_other_types_are_not_read() -> None:
    played = play([(100, said("a"))], kind="text/html")
    assert (played.meter.stream, played.meter.readable, played.totals.source) == (
        (False, False, "none")
    )


def test_a_whole_answer_cut_off_tells_nothing() -> None:
    played = play([(100, body({"usage": counts(1, 2)})[:-1])], kind=JSON, ends=False)
    assert played.totals == ("none", None, None, None, None)


def test_lines_are_a_stream_too() -> None:
    script = [(100, line({"response": "ab"})), (200, line({"response": "cd", "done": True})[:-1])]
    played = play(script, "/api/generate", {}, kind=LINES)
    assert (played.ttft, played.gaps, played.meter.ended) == (100, [100], True)


def test_a_comment_behind_the_end_does_no_harm() -> None:
    script = [(100, completion("a")), (200, completion("b", "stop")), (201, DONE), (300, b":\n")]
    assert play(script, "/v1/completions").meter.ended


def test_giving_up_reads_no_more() -> None:
    meter = play([(100, said("a")), (200, said("b"))], ends=False).meter
    meter.give_up("malformed")
    meter.read(said("c"), 6000.0)
    meter.end(6000.0)
    assert (meter.output.events, meter.chunks, meter.decode_rate(3)) == (2, 3, (None, "malformed"))


def test_text_that_was_not_read_is_not_estimated() -> None:
    played = play([(100, said("a")), (200, b"data: " + b"x" * (1 << 21)), (300, DONE)])
    assert (played.skipped, played.totals.output, played.totals.source) == (
        "too_large",
        None,
        "none",
    )
