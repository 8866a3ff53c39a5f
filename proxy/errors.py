"""The proxy's own failures, in the shape of OpenAI's errors, so that every client can read them."""

from typing import NamedTuple

import orjson

from proxy.headers import Pair


class Failure(NamedTuple):
    """A failure of the proxy's own: status, OpenAI's `code`, and one line for people."""

    status: int
    code: str
    message: str

    def answer(self) -> tuple[list[Pair], bytes]:
        """Header pairs and body of the answer that says so."""
        body = orjson.dumps(
            {
                "error": {
                    "message": self.message,
                    "type": "proxy_error",
                    "param": None,
                    "code": self.code,
                }
            }
        )
        length = str(len(body)).encode("ascii")
        return [(b"Content-Type", b"application/json"), (b"Content-Length", length)], body


def unreachable(upstream: str, why: str) -> Failure:
    """The upstream took no connection, or closed it before it answered."""
    return Failure(502, "upstream_unreachable", f"upstream {upstream} cannot be reached: {why}")


def timed_out(upstream: str, why: str) -> Failure:
    """The upstream did not connect or answer in the time that was set."""
    return Failure(504, "upstream_timeout", f"upstream {upstream} did not answer in time: {why}")


DRAINING = Failure(503, "draining", "this proxy is shutting down: try again, elsewhere")
NO_ROUTE = Failure(404, "no_upstream", "no upstream has a prefix of this path: see [upstreams]")
BAD_TARGET = Failure(
    400,
    "bad_request_target",
    "the request target must be a path or an http URL, without # and without .. out of its prefix",
)
BAD_REQUEST = Failure(400, "bad_request", "the request is not valid HTTP/1.1")
BAD_HOST = Failure(400, "bad_host", "a request needs one Host header, with a host and no more")
BAD_CODING = Failure(
    501, "unsupported_transfer_coding", "chunked, once, is the only transfer coding there is here"
)
VERSION = Failure(505, "http_version_not_supported", "this proxy takes HTTP/1.1 and HTTP/1.0")
SLOW = Failure(408, "request_timeout", "the request did not come in time: see --client-timeout")
HEAD_TOO_LARGE = Failure(
    431,
    "request_head_too_large",
    "the request's headers, trailers or chunk extensions are too large",
)
INTERNAL = Failure(500, "internal_error", "a bug in this proxy: its standard error names the kind")
# What is refused before it is an exchange.
REFUSALS = (
    BAD_REQUEST,
    BAD_TARGET,
    BAD_HOST,
    BAD_CODING,
    VERSION,
    HEAD_TOO_LARGE,
    SLOW,
    NO_ROUTE,
    INTERNAL,
)
