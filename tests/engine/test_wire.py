import orjson
import pytest

from proxy.engine.ask import Refusal
from proxy.engine.wire import data, error, typed


def test_an_event_is_named_after_its_type_or_not_at_all() -> None:
    assert data({"a": "\n"}) == b'data: {"a":"\\n"}\n\n'
    assert typed({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (404, "invalid_request_error", "not_found_error"),
        (405, "invalid_request_error", "invalid_request_error"),
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
    ],
)
def test_an_error_has_the_words_of_the_interface(status: int, openai: str, anthropic: str) -> None:
    refusal = Refusal(status, "no", "param")
    said = error("/v1/chat/completions", refusal)["error"]
    assert (said["message"], said["type"], said["param"]) == ("no", openai, "param")
    kind = {"type": anthropic, "message": "no"}
    assert error("/v1/messages", refusal) == {"type": "error", "error": kind}
    assert error("/api/chat", refusal) == {"error": "no"}


def test_events_hold_any_text() -> None:
    written = data({"text": "\u2028 data: \r\n\n é"})
    assert written.count(b"\n") == 2
    assert orjson.loads(written[6:])["text"] == "\u2028 data: \r\n\n é"
