import asyncio
import math
from typing import Any

import orjson
import pytest
from paper import Reads, Server
from test_facts import LLAMACPP, PROPS

from proxy.address import Upstream
from proxy.canary import PROMPT, Canary
from proxy.channel import Sung
from proxy.scouting import Key, Scouting
from proxy.upstream import Transport

UP = Upstream("up", "http", "127.0.0.1", 8000)


def event(**fields: Any) -> bytes:
    return b"data: " + orjson.dumps(fields) + b"\n\n"


def word(text: str) -> bytes:
    return event(model="m-1", choices=[{"index": 0, "delta": {"content": text}}])


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
END = (
    event(model="m-1", choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
    + event(model="m-1", choices=[], usage=USAGE)
    + b"data: [DONE]\n\n"
)
# Five tokens, the first 0.5 s after the request, the others in 2 s.
CHAT = [(0.5, word("One")), (1.5, word(", two")), (2.5, word(", three")), (2.6, END)]


@pytest.fixture
def server() -> Server:
    server = Server()
    server.knows("/v1/models", {"data": [{"id": "m"}, {"id": "other"}]})
    return server


class Perch:
    """A canary and the server before it."""

    def __init__(self, server: Server, **settings: Any) -> None:
        all_settings = Scouting(**{"canary_interval": 60.0} | settings)
        self.canary = Canary(UP, all_settings, server, lambda: server.now)

    def sing(self) -> Sung:
        return asyncio.run(self.canary.sing())


def test_an_answer_is_measured_like_any_stream(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    sung = Perch(server).sing()
    assert sung.pop("decode_tokens_per_second") == pytest.approx((5 - 5 * 3 / 15) / 2)  # n1 = 1
    assert sung == {
        "kind": "sung",
        "upstream": "up",
        "model": "m-1",
        "success": True,
        "ttft_seconds": 0.5,
    }


def test_the_request_is_always_the_same_and_bounded(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    perch = Perch(server, canary_max_tokens=5)
    perch.sing()
    perch.sing()
    first, second = server.posts
    assert first == second
    assert first == (
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [{"role": "user", "content": PROMPT}],
            "stream": True,
            "temperature": 0,
            "max_tokens": 5,
            "stream_options": {"include_usage": True},
        },
    )


def test_the_model_is_the_one_that_is_set_else_the_first_that_is_listed(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    Perch(server, canary_model="mine").sing()
    Perch(server).sing()
    assert [body["model"] for _, body in server.posts] == ["mine", "m"]


def test_no_pattern_of_a_router_is_asked_as_a_model(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    server.knows("/v1/models", {"data": [{"id": "*"}, {"id": "openai/*"}, {"id": "m"}]})
    Perch(server).sing()
    server.knows("/v1/models", {"data": [{"id": "*"}]})
    Perch(server).sing()
    Perch(server, canary_model="a*").sing()
    assert [body.get("model") for _, body in server.posts] == ["m", None, "a*"]


def test_no_more_of_a_models_name_is_told_than_anybody_would_write(server: Server) -> None:
    body = event(model="x" * 500_000, choices=[{"index": 0, "delta": {"content": "One"}}])
    server.knows("/v1/chat/completions", [(0.5, body), (1.0, END)])
    assert Perch(server).sing()["model"] == "x" * 256


def test_a_model_is_kept_while_it_is_listed(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    perch = Perch(server)
    perch.sing()
    server.knows("/v1/models", {"data": [{"id": "newer"}, {"id": "m"}]})
    perch.sing()
    server.knows("/v1/models", {"data": [{"id": "newer"}]})
    perch.sing()
    assert [body["model"] for _, body in server.posts] == ["m", "m", "newer"]


def test_where_nothing_is_listed_no_model_is_named(server: Server) -> None:
    server.knows("/v1/models", {}, 404)
    server.knows("/v1/chat/completions", CHAT)
    assert Perch(server).sing()["model"] == "m-1"
    assert "model" not in server.posts[0][1]


def test_ollama_is_asked_in_its_own_way(server: Server) -> None:
    server.knows("/v1/models", {"data": [{"id": "m:latest", "owned_by": "library"}]})
    server.knows("/api/version", {"version": "0.9"})

    def chat(body: Any) -> tuple[int, str, Reads]:
        assert body["options"] == {"temperature": 0, "num_predict": 64}
        lines = [(0.25, {"model": "m:latest", "message": {"content": "One"}, "done": False})]
        lines.append((1.25, {"model": "m:latest", "message": {"content": "Two"}, "done": False}))
        done = {"model": "m:latest", "done": True, "prompt_eval_count": 20, "eval_count": 11}
        lines.append((1.25, done | {"message": {"content": ""}, "done_reason": "length"}))
        reads = [(at, orjson.dumps(line) + b"\n") for at, line in lines]
        return 200, "application/x-ndjson", reads

    server.decides("/api/chat", chat)
    sung = Perch(server).sing()
    assert (sung["success"], sung["model"], sung["ttft_seconds"]) == (True, "m:latest", 0.25)
    assert sung["decode_tokens_per_second"] == pytest.approx(11 / 2)  # half of it came first
    assert [path for path, _ in server.posts] == ["/api/chat"]


MESSAGES = [
    (0.0, b"event: message_start\ndata: " + orjson.dumps({
        "type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 9}}
    }) + b"\n\n"),
    (0.75, b"event: content_block_delta\ndata: " + orjson.dumps({
        "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One"}
    }) + b"\n\n"),
    (0.75, b"event: message_delta\ndata: " + orjson.dumps({
        "type": "message_delta", "delta": {"stop_reason": "max_tokens"},
        "usage": {"output_tokens": 4},
    }) + b"\n\n"),
    (0.75, b'event: message_stop\ndata: {"type": "message_stop"}\n\n'),
]  # fmt: skip


def test_messages_are_understood_and_tell_their_version(server: Server) -> None:
    server.knows("/v1/messages", MESSAGES)
    sung = Perch(server, canary_api="messages", key=Key("k")).sing()
    assert (sung["success"], sung["model"], sung["ttft_seconds"]) == (True, "claude", 0.75)
    assert "decode_tokens_per_second" not in sung  # all of it came at once
    for headers in server.headers:
        assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")
        assert "authorization" not in headers


def test_an_answer_that_is_no_stream_is_a_success_without_a_speed(server: Server) -> None:
    message = {"role": "assistant", "content": "One"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    whole = {"model": "m-1", "choices": choices, "usage": USAGE}
    server.knows("/v1/chat/completions", whole)
    sung = Perch(server).sing()
    assert sung == {"kind": "sung", "upstream": "up", "model": "m-1", "success": True}


def test_interfaces_are_tried_until_one_works_and_then_it_alone(server: Server) -> None:
    completion = event(model="m-1", choices=[{"index": 0, "text": "x", "finish_reason": "stop"}])
    server.knows("/v1/completions", [(0.5, completion + b"data: [DONE]\n\n")])
    perch = Perch(server)
    assert perch.sing()["success"]
    paths = [path for path, _ in server.posts]
    assert paths[-1] == "/v1/completions"
    assert {"/v1/chat/completions", "/api/chat", "/v1/messages"} < set(paths)
    server.asked.clear()
    assert perch.sing()["success"]
    assert [path for path, _ in server.posts] == ["/v1/completions"]


def test_an_interface_that_is_set_is_the_only_one_tried(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    assert not Perch(server, canary_api="completions").sing()["success"]
    assert [path for path, _ in server.posts] == ["/v1/completions"]


def test_parameters_that_a_server_does_not_take_are_left_out(server: Server) -> None:
    def no_usage(body: Any) -> tuple[int, str, Reads]:
        return server.form({}, 422) if "stream_options" in body else server.form(CHAT)

    def reasoning(body: Any) -> tuple[int, str, Reads]:
        refused = "max_tokens" in body or "temperature" in body
        return server.form({}, 400) if refused else server.form(CHAT)

    for picky in (no_usage, reasoning):
        server.decides("/v1/chat/completions", picky)
        assert Perch(server).sing()["success"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refusal_that_is_not_about_the_interface_is_a_failure_at_once(
    server: Server, status: int
) -> None:
    server.knows("/v1/chat/completions", {"error": {}}, status)
    sung = Perch(server).sing()
    assert sung == {"kind": "sung", "upstream": "up", "model": "m", "success": False}
    assert len(server.posts) == 1


BROKEN = {
    "an error inside": [(0.5, word("One")), (0.6, event(error={"message": "no"}))],
    "no end": [(0.5, word("One"))],
    "no output": [(0.5, END)],
    "nothing": [],
}


@pytest.mark.parametrize("reads", BROKEN.values(), ids=BROKEN)
def test_an_answer_that_is_not_whole_is_a_failure(server: Server, reads: Reads) -> None:
    server.knows("/v1/chat/completions", reads)
    sung = Perch(server).sing()
    assert sung == {"kind": "sung", "upstream": "up", "model": "m", "success": False}


def test_a_failure_goes_by_the_name_that_answered_before(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    perch = Perch(server)
    perch.sing()
    server.knows("/v1/chat/completions", {}, 500)
    assert perch.sing()["model"] == "m-1"


def test_what_takes_too_long_is_a_failure(server: Server) -> None:
    server.knows("/v1/chat/completions", [(math.inf, b"")])
    assert not Perch(server, canary_interval=0.05).sing()["success"]


def test_an_upstream_that_is_not_there_is_a_failure() -> None:
    canary = Canary(
        Upstream("up", "http", "127.0.0.1", 1),
        Scouting(canary_interval=60.0),
        Transport(lambda: 0.0, 0.0),
        lambda: 0.0,
    )
    sung = asyncio.run(canary.sing())
    assert sung == {"kind": "sung", "upstream": "up", "model": "", "success": False}


@pytest.mark.parametrize(
    ("key", "sent"), [("k", "Bearer k"), ("Basic dTpw", "Basic dTpw"), ("", None)]
)
def test_a_key_is_shown_to_the_list_and_to_the_model(
    server: Server, key: str, sent: str | None
) -> None:
    server.knows("/v1/chat/completions", CHAT)
    Perch(server, key=Key(key)).sing()
    assert [headers.get("authorization") for headers in server.headers] == [sent] * len(
        server.headers
    )


def test_a_server_that_knows_no_interface_gets_all_requests_each_time_and_each_has_the_key(
    server: Server,
) -> None:
    perch = Perch(server, key=Key("k"))
    for _ in range(2):
        server.asked.clear()
        server.headers.clear()
        assert not perch.sing()["success"]
        assert len(server.headers) == 7 + 6
        assert [path for path, _ in server.posts] == [
            *["/v1/chat/completions"] * 3,
            "/api/chat",
            "/v1/messages",
            "/v1/completions",
        ]
        for headers in server.headers:
            shown = headers.get("authorization") or "Bearer " + headers["x-api-key"]
            assert shown == "Bearer k"
            assert ("anthropic-version" in headers) == ("x-api-key" in headers)
            assert headers.keys() - {"authorization", "x-api-key", "anthropic-version"} <= {
                *("host", "user-agent", "accept-encoding", "content-type", "content-length")
            }


def test_with_a_model_and_an_interface_nothing_but_the_prompt_is_sent(server: Server) -> None:
    server.knows("/v1/chat/completions", CHAT)
    perch = Perch(server, canary_model="m")
    perch.sing()
    server.asked.clear()
    server.headers.clear()
    perch.sing()
    assert len(server.headers) == len(server.posts) == 1


def test_an_engine_that_is_known_is_asked_no_more_than_it_must(server: Server) -> None:
    server.knows("/v1/models", LLAMACPP)
    server.knows("/props", PROPS)
    server.knows("/v1/chat/completions", CHAT)
    perch = Perch(server, canary_model="m")
    perch.sing()
    server.asked.clear()
    perch.sing()
    assert [path for _, path, _ in server.asked] == ["/v1/chat/completions"]


def test_why_canaries_fail_is_said_once_and_again_when_it_is_something_else(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    perch = Perch(server)
    server.knows("/v1/chat/completions", {"error": "no secret text"}, 401)
    perch.sing()
    perch.sing()
    assert capsys.readouterr().err == (
        "tokometer: canary: upstream up: /v1/chat/completions answered 401, and no whole stream of "
        "text\n"
    )
    server.knows("/v1/chat/completions", [(math.inf, b"")])
    slow = Perch(server, canary_interval=0.05)
    slow.sing()
    assert "no whole answer in 0.05 s" in capsys.readouterr().err
    server.knows("/v1/chat/completions", CHAT)
    perch.sing()
    assert capsys.readouterr().err == ""
