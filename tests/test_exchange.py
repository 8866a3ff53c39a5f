"""What the keeper is told of an exchange: the right keys, of the right types, and no guesses."""

import pytest
from exchanges import OURS, WALL, arrived, ended, headed, misfits, opened
from playing import ASK, JSON, T0
from wire import DONE, body, counts, finished, role, said, sse, thought

from proxy.channel import Begin, End, Output
from proxy.headers import Pair
from proxy.origin import Origin

MODEL = ASK | {"model": "m-asked"}

# --- who it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["a", "7f3-b", "with space", "~!@#", "x" * 128])
def test_the_clients_request_id_is_kept(asked: str) -> None:
    exchange = opened([(b"X-Request-Id", asked.encode()), (b"x-request-id", b"second")])
    assert exchange.request_id == asked


@pytest.mark.parametrize("asked", [b"", b"  ", b"x" * 129, b"a\x00b", b"a\tb", b"\xe9", b"a\x7f"])
def test_a_request_id_that_cannot_be_shown_is_replaced(asked: bytes) -> None:
    assert opened([(b"X-Request-Id", asked)]).request_id == OURS


def test_a_request_without_an_id_gets_ours() -> None:
    assert opened().request_id == OURS


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        (f"00-{TRACE}-{SPAN}-01", TRACE),
        (f" 00-{TRACE}-{SPAN}-00 ", TRACE),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", TRACE),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE[1:]}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f"00-{TRACE}-{SPAN}-01x", None),
        ("", None),
        ("é", None),
    ],
)
def test_the_trace_id_is_the_one_of_traceparent(value: str, trace: str | None) -> None:
    exchange = opened([(b"Traceparent", value.encode("latin-1"))])
    assert exchange.trace_id == trace
    assert exchange.begin()["trace"] == (trace or OURS)


# --- its begin ------------------------------------------------------------------------------------


def test_a_begin_tells_what_was_asked_for() -> None:
    headers: list[Pair] = [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())]
    begin = opened(headers, asked=MODEL, number=7).begin()
    assert begin == {
        "kind": "begin",
        "id": 7,
        "upstream": "up",
        "api": "chat",
        "stream": True,
        "model": "m-asked",
        "at": T0,
        "trace": TRACE,
        "time": WALL,
        "request_id": OURS,
        "trace_id": TRACE,
        "parent_id": SPAN,
        "sampled": True,
    }
    assert misfits(begin, Begin) == []


def test_what_was_not_asked_for_is_absent() -> None:
    begin = opened(path="/what/ever", asked={}).begin()
    assert (begin["api"], begin["stream"]) == ("other", False)
    assert begin.keys().isdisjoint({"model", "trace_id"})


def test_a_long_model_name_is_cut() -> None:
    exchange = opened(asked=ASK | {"model": "m" * 1000})
    assert len(exchange.begin()["model"]) == len(ended(exchange)["model"]) == 256


def test_a_body_that_streams_through_begins_to_count_when_it_is_complete() -> None:
    exchange = opened()
    exchange.uploaded(T0 + 3)
    headed(exchange, at=3500)
    arrived(exchange, (4000, said("a")))
    assert exchange.begin()["at"] == T0 + 3
    end = ended(exchange)
    assert end["ttft_seconds"] == pytest.approx(1)
    assert end["headers_seconds"] == pytest.approx(0.5)
    assert end["duration_seconds"] == pytest.approx(1)


# --- its progress ---------------------------------------------------------------------------------


def test_progress_tells_what_is_new() -> None:
    exchange = opened(asked=MODEL)
    headed(exchange)
    arrived(exchange, (50, role()))
    assert exchange.progress() is None
    arrived(exchange, (100, thought("hm")), (150, thought("m")))
    first = exchange.progress()
    assert first == {
        "kind": "output",
        "id": 1,
        "model": "m-1",
        "ttft_seconds": pytest.approx(0.1),
        "first_at": pytest.approx(T0 + 0.1),
        "last_at": pytest.approx(T0 + 0.15),
        "tokens": 2,
        "characters": 3,
        "gaps": [pytest.approx(0.05)],
    }
    assert exchange.progress() is None
    arrived(exchange, (350, said("42")))
    second = exchange.progress()
    assert second == {
        "kind": "output",
        "id": 1,
        "model": "m-1",
        "ttfv_seconds": pytest.approx(0.35),
        "last_at": pytest.approx(T0 + 0.35),
        "tokens": 1,
        "characters": 2,
        "gaps": [pytest.approx(0.2)],
    }
    for record in (first, second):
        assert record is not None and misfits(record, Output) == []


def test_progress_is_looked_at_when_it_is_told() -> None:
    exchange = opened()
    exchange.moved = True
    assert exchange.progress() is None
    assert not exchange.moved


def test_nothing_is_told_of_an_answer_that_is_no_2xx() -> None:
    exchange = opened()
    headed(exchange, status=500)
    arrived(exchange, (100, said("a")))
    assert exchange.progress() is None


def test_an_answer_that_is_no_stream_has_no_progress() -> None:
    exchange = opened(asked={"messages": []})
    headed(exchange, JSON)
    whole = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    arrived(exchange, (100, body(whole | {"usage": counts(9, 2)})))
    exchange.meter.end(exchange.t_end)
    assert exchange.progress() is None


def ids(text: str, *tokens: int) -> bytes:
    return sse({"choices": [{"delta": {"content": text}, "token_ids": list(tokens)}]})


def test_what_is_told_on_the_way_adds_up_to_the_end() -> None:
    exchange = opened()
    headed(exchange)
    reads = [
        (100, ids("ab", 1)),
        (200, ids("c", 2, 3)),
        (300, ids("", 4)),
        (400, ids("defg", 5, 6)),
    ]
    told = []
    for at, data in reads:
        arrived(exchange, (at, data))
        told.append(exchange.progress() or Output())
    arrived(exchange, (500, finished() + DONE))
    end = ended(exchange)
    assert sum(record.get("tokens", 0) for record in told) == end["output_tokens"] == 6
    assert sum(record.get("characters", 0) for record in told) == end["output_characters"] == 7
    gaps = [gap for record in told for gap in record.get("gaps", [])]
    assert max(gaps) == end["max_gap_seconds"]
    assert [record.get("ttft_seconds") for record in told] == [
        end["ttft_seconds"],
        None,
        None,
        None,
    ]
    assert told[-1]["last_at"] == end["last_at"]


def test_a_client_that_takes_no_bytes_is_told_once_and_again_when_it_does() -> None:
    exchange = opened()
    headed(exchange)
    arrived(exchange, (100, said("a")))
    assert "held" not in (exchange.progress() or {})
    exchange.held = True
    told = exchange.progress()
    assert told is not None and (told["held"], told["tokens"], told["gaps"]) == (True, 0, [])
    assert exchange.progress() is None
    exchange.held = False
    told = exchange.progress()
    assert told is not None and told["held"] is False
    assert exchange.progress() is None


# --- whom it is from ------------------------------------------------------------------------------


def test_user_and_task_are_told_at_both_ends() -> None:
    exchange = opened(origin=Origin("ann", "f" * 32))
    begin, end = exchange.begin(), ended(exchange)
    assert (begin["user"], begin["task"]) == (end["user"], end["task"]) == ("ann", "f" * 32)
    assert misfits(begin, Begin) == misfits(end, End) == []


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False)])
def test_an_end_says_which_span_it_continues_and_whether_that_is_recorded(
    flags: str, sampled: bool
) -> None:
    end = ended(opened([(b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode())]))
    assert (end["trace_id"], end["parent_id"], end["sampled"]) == (TRACE, SPAN, sampled)
    assert misfits(end, End) == []
