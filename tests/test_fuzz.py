"""The fuzzer's targets hold for any bytes, and for those that it begins with."""

import pytest
from fuzz_targets import TARGETS, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = st.sampled_from(
    [
        b"\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"Content-Length: 2\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"data: ",
        b"\n\n",
        b'{"usage":',
        b'"stream_options":',
        b'"include_usage":',
        b'{"choices":[',
        b"}",
        b"]",
        b",",
        b"null",
        b"http://",
        b"/p/../",
        b"%2e",
        b"traceparent: 00-",
        b"x-request-id: ",
    ]
)
BYTES = st.lists(WORDS | st.binary(max_size=12), max_size=20).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
def test_target_holds_for_what_the_fuzzer_begins_with(name: str) -> None:
    for seed in seeds():
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=100, deadline=None)
@given(data=BYTES)
def test_target_holds_for_any_bytes(name: str, data: bytes) -> None:
    TARGETS[name](data)
