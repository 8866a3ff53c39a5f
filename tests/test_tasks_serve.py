"""`tokometer serve` and tasks: calls over several workers are one task."""

import http.client
from contextlib import closing

import pytest
from serve_rig import (
    ASK,
    LAST,
    PATIENCE,
    Proxy,
    Upstream,
    eventually,
    serving,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def ask(proxy: Proxy, headers: dict[str, str]) -> None:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)
    with closing(client):
        client.request("POST", "/v1/chat/completions", ASK, headers)
        assert client.getresponse().read().endswith(LAST)


@pytest.mark.parametrize("shared", ["trace", "header"])
def test_calls_that_share_something_are_one_task(upstream: Upstream, shared: str) -> None:
    upstream.go_on.set()
    arguments = ["--upstream", upstream.url, "--workers", "2", "--task-quiet", "1s"]
    if shared == "header":
        arguments += ["--task-from", "header:X-Task"]
    with serving(*arguments) as proxy:
        proxy.ready()
        for number in range(4):
            trace = TRACE if shared == "trace" else f"{number + 1:032x}"
            ask(proxy, {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "X-Task": "one"})
        assert eventually(lambda: proxy.count("tokometer_task_calls_sum") == 4)
        assert eventually(lambda: proxy.count("tokometer_task_wait_seconds_sum") > 0)
        # A busy machine may have taken longer than the quiet time between two calls.
        assert 1 <= proxy.count("tokometer_task_calls_count") < 4
