"""Request targets: which upstream they go to, and that they stay as they are."""

import orjson
import pytest
from clients import get
from proxy_rig import play, proxying
from upstreams import answering, sized

from proxy.address import Upstream

OK = sized(b"{}")


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/?",
        b"/v1/models?",
        b"/a%2Fb/%2e%2E/%zz?q=%2F&q=+&q",
        b"//double//slashes//",
        b"/a/../../b/./c/",
        b"/a;b=c,d/$&'()*+@!~:",
        b'/"quotes"<>[]{}|\\^`',
        b"/v1/models?a?b??",
    ],
)
def test_target_goes_on_as_it_came(target: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(get(target))).status == 200
            assert upstream.heard[0].line == b"GET " + target + b" HTTP/1.1"

    play(main)


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"http://somewhere.test/a/b?c", b"/a/b?c"),
        (b"HTTPS://somewhere.test:8443/a//b", b"/a//b"),
        (b"http://somewhere.test", b"/"),
        (b"http://somewhere.test?q=/x", b"/?q=/x"),
    ],
)
def test_absolute_target_loses_its_origin(target: bytes, sent: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(get(target))).status == 200
            assert upstream.heard[0].target == sent

    play(main)


@pytest.mark.parametrize("request_", [b"CONNECT a.test:443", b"OPTIONS *", b"GET ftp://a.test/"])
def test_target_that_is_no_path_is_the_clients_mistake(request_: bytes) -> None:
    async def main() -> None:
        async with answering(OK) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(request_ + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answer.status == 400
            assert orjson.loads(answer.body)["error"]["code"] == "bad_request_target"
            assert not upstream.heard

    play(main)


def test_longest_prefix_wins_and_is_stripped_and_the_base_is_put_before() -> None:
    async def main() -> None:
        async with answering(sized(b"a")) as a, answering(sized(b"b")) as b:
            ways = [
                Upstream("a", "http", "127.0.0.1", a.port, "/base", "/fast"),
                Upstream("b", "http", "127.0.0.1", b.port, "", "/fast/er"),
            ]
            async with proxying(*ways) as proxy:
                client = await proxy.client()
                for target in (b"/fast/x?y", b"/fast", b"/fast?q", b"/fast/erx", b"/fast//x"):
                    assert (await client.ask(get(target))).body == b"a"
                for target in (b"/fast/er/x", b"/fast/er"):
                    assert (await client.ask(get(target))).body == b"b"
                nowhere = await client.ask(get(b"/faster/x"))
                assert nowhere.status == 404
                assert orjson.loads(nowhere.body)["error"]["code"] == "no_upstream"
            assert [heard.target for heard in a.heard] == [
                b"/base/x?y",
                b"/base/",
                b"/base/?q",
                b"/base/erx",
                b"/base//x",
            ]
            assert [heard.target for heard in b.heard] == [b"/x", b"/"]

    play(main)
