"""Which upstream gets a request, and as which target."""

import httpx
import pytest

from proxy import errors
from proxy.address import Upstream
from proxy.routing import Way, route

WAYS = [
    Way(Upstream.parse(name, url, prefix), httpx.AsyncBaseTransport())
    for name, url, prefix in (
        ("deep", "http://a:1/base", "/fast/deep"),
        ("fast", "http://b:2", "/fast"),
        ("default", "http://c:3", "/"),
    )
]


@pytest.mark.parametrize(
    ("target", "name", "sent"),
    [
        (b"/v1/models", "default", b"/v1/models"),
        (b"/fast/v1/models?a=b", "fast", b"/v1/models?a=b"),
        (b"/fast", "fast", b"/"),
        (b"/fast?a", "fast", b"/?a"),
        (b"/fast/", "fast", b"/"),
        (b"/faster/v1", "default", b"/faster/v1"),
        (b"/fast/deep/x", "deep", b"/base/x"),
        (b"/fast/deep", "deep", b"/base/"),
        (b"/?", "default", b"/?"),
        (b"//x/%2F/../y?q=%00&&", "default", b"//x/%2F/../y?q=%00&&"),
        (b"http://proxy.test/fast/x?y", "fast", b"/x?y"),
        (b"HTTPS://proxy.test", "default", b"/"),
        (b"http://proxy.test?x", "default", b"/?x"),
    ],
)
def test_the_longest_prefix_wins_and_is_stripped(target: bytes, name: str, sent: bytes) -> None:
    found = route(WAYS, target)
    assert not isinstance(found, errors.Failure)
    assert (found[0].upstream.name, found[1]) == (name, sent)


@pytest.mark.parametrize("target", [b"*", b"proxy.test:443", b"ftp://x/y", b""])
def test_what_is_no_path_is_refused(target: bytes) -> None:
    assert route(WAYS, target) is errors.BAD_TARGET


def test_a_path_that_no_upstream_has_is_refused() -> None:
    assert route(WAYS[:2], b"/v1/models") is errors.NO_ROUTE
