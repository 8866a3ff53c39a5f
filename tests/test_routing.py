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


@pytest.mark.parametrize(
    "path",
    [
        b"..",
        b"../x",
        b"a/../..",
        b"a/../../b",
        b"%2e%2e/x",
        b"%2E./x",
        b"a%2f..%2f..%2fx",
        b"a/%2e%2e/%2E%2E/x",
        b"..\\x",
        b"..%5cx",
        b"..;a=b/x",
        b"a//../../x",
        b"./../x",
        b"../deep/x?y",
        b"a%2fb/../../x",
        b"a%2fb%2fc/../../../x",
        b"a\\b/../../x",
        b"a%5cb/../../x",
        b"a%2f%2fb/../../x",
        pytest.param(b"a/.." + b"/" * 501, id="of too many segments"),
        pytest.param(b"%41" * 3000, id="too long"),
        b"%252e%252e/x",
        b"%25252e./x",
        b"%c0%ae%c0%ae/x",
        b"%2e%2e%c0%af",
        b"..%00/x",
        b".%00./x",
        b"..%09/x",
        b"..%20/x",
    ],
)
@pytest.mark.parametrize("prefix", [b"/fast/", b"/fast/deep/", b"http://a.test/fast/"])
def test_a_path_that_leads_out_of_its_prefix_is_refused(prefix: bytes, path: bytes) -> None:
    assert route(WAYS, prefix + path) is errors.BAD_TARGET


def test_a_path_that_leads_out_of_an_upstreams_base_is_refused() -> None:
    way = Way(Upstream.parse("a", "http://a:1/base"), httpx.AsyncBaseTransport())
    assert route([way], b"/../x") is errors.BAD_TARGET
    assert route([way], b"/x/../y") == (way, b"/base/x/../y")


@pytest.mark.parametrize(
    "path",
    [b"a/../b", b"a/b/../../c", b"..a", b"a..", b"...", b"x?/../..", b"a%2fb/x", b"a%20b"],
)
def test_a_path_that_stays_below_its_prefix_goes_on_as_it_came(path: bytes) -> None:
    assert route(WAYS, b"/fast/" + path) == (WAYS[1], b"/" + path)


def test_a_path_that_no_upstream_has_is_refused() -> None:
    assert route(WAYS[:2], b"/v1/models") is errors.NO_ROUTE
