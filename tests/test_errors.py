"""The proxy's own failures, as a client of OpenAI's reads them."""

import orjson
import pytest

from proxy import errors
from proxy.errors import Failure

FAILURES = {
    (502, "upstream_unreachable"): errors.unreachable("gpu", "connection refused"),
    (504, "upstream_timeout"): errors.timed_out("gpu", "silent for 5 s"),
    (503, "draining"): errors.DRAINING,
    (404, "no_upstream"): errors.NO_ROUTE,
    (400, "bad_request_target"): errors.BAD_TARGET,
    (400, "bad_request"): errors.BAD_REQUEST,
    (431, "request_head_too_large"): errors.HEAD_TOO_LARGE,
    (400, "bad_host"): errors.BAD_HOST,
    (408, "request_timeout"): errors.SLOW,
    (501, "unsupported_transfer_coding"): errors.BAD_CODING,
    (505, "http_version_not_supported"): errors.VERSION,
    (500, "internal_error"): errors.INTERNAL,
}


def test_every_failure_is_listed_here() -> None:
    fixed = [value for value in vars(errors).values() if isinstance(value, Failure)]
    assert {id(failure) for failure in fixed} <= {id(failure) for failure in FAILURES.values()}


@pytest.mark.parametrize(("expected", "failure"), FAILURES.items())
def test_a_failure_has_openais_shape(expected: tuple[int, str], failure: Failure) -> None:
    headers, body = failure.answer()
    error = {"message": failure.message, "type": "proxy_error", "param": None, "code": expected[1]}
    assert orjson.loads(body) == {"error": error}
    assert failure.status == expected[0]
    assert headers == [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", str(len(body)).encode()),
    ]
    assert failure.message and "\n" not in failure.message


def test_a_failure_of_an_upstream_names_it_and_says_why() -> None:
    for failure in (errors.unreachable("gpu-1", "no route"), errors.timed_out("gpu-1", "no route")):
        assert "gpu-1" in failure.message and failure.message.endswith("no route")


def test_the_length_is_of_bytes() -> None:
    headers, body = errors.unreachable("büro", "日本").answer()
    assert (b"Content-Length", b"%d" % len(body)) in headers
    assert "büro" in body.decode()
