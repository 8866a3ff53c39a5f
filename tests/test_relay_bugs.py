"""Mistakes of our own: what the client gets then, and what is said of them."""

import httpx
import pytest
from clients import get
from proxy_rig import play, proxying
from test_relay_failures import EVENT, STREAM, code
from upstreams import (
    EVENTS,
    answering,
    chunk,
    sized,
)

from proxy.meter import Meter


class Broken(httpx.AsyncBaseTransport):
    """A transport with a bug."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise KeyError("secret text")


def test_bug_of_ours_is_a_500_and_tells_nothing_of_the_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with answering(sized(b"x")) as upstream, proxying(upstream.port) as proxy:
            way = proxy.relay._ways[0]
            proxy.relay._ways = [way._replace(transport=Broken())]
            client = await proxy.client()
            answer = await client.ask(STREAM)
            assert code(answer) == (500, "internal_error")
            assert b"secret" not in answer.body
            assert (await proxy.records.end())["outcome"] == "aborted"
            proxy.relay._ways = [way]
            assert (await client.ask(get(b"/"))).status == 200

    play(main)
    said = capsys.readouterr().err
    assert "KeyError" in said
    assert "secret" not in said


@pytest.mark.parametrize("where", ["read", "end"])
def test_bug_of_the_meter_does_not_touch_the_stream(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(meter: Meter, *what: object) -> None:
        raise ValueError(f"Hi: {what}")

    monkeypatch.setattr(Meter, where, fail)
    stream = EVENTS + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + chunk(b"")

    async def main() -> None:
        async with answering(stream) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(STREAM)
            assert (answer.body, answer.clean) == (EVENT + b"data: [DONE]\n\n", True)
            end = await proxy.records.end()
            assert (end["skipped"], end.get("error")) == ("malformed", None)

    play(main)
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert "Hi" not in said
