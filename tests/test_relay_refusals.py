"""What the proxy refuses itself is counted and logged, and what failed says why."""

import asyncio

import orjson
import pytest
from clients import get, post
from proxy_rig import Proxy, play, proxying
from test_relay_failures import ENDINGS, EVENT, STREAM, Ending, code, free_port, saying
from upstreams import EVENTS, ScriptedUpstream, Silent, Visit, answering, chunk, sized

from proxy.address import Upstream
from proxy.exchange import Exchange
from proxy.relay import Rules

TRACE = b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-01"


def refused(proxy: Proxy) -> list[tuple[object, ...]]:
    records = proxy.records.kind("refused")
    return [(r.get("outcome"), r.get("code"), r.get("error")) for r in records]


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (get(b"/nowhere"), 404, "no_upstream"),
        (get(b"ftp://a/b"), 400, "bad_request_target"),
        (get(b"/some/../../x"), 400, "bad_request_target"),
        (get(b"/some#x"), 400, "bad_request_target"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_host"),
        (get(b"/some", b"Transfer-Encoding: gzip, chunked"), 501, "unsupported_transfer_coding"),
        (get(b"/some").replace(b"1.1", b"2.0", 1), 505, "http_version_not_supported"),
        (get(b"/some", b"X-A: " + b"x" * 70_000), 431, "request_head_too_large"),
        (b"\x16\x03\x01", 400, "bad_request"),
        (b"GET /some", 408, "request_timeout"),
    ],
)
def test_what_no_upstream_sees_is_counted_by_reason(
    request_: bytes, status: int, reason: str
) -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream:
            some = Upstream("some", "http", "127.0.0.1", upstream.port, prefix="/some")
            async with proxying(some, patience=0.05) as proxy:
                client = await proxy.client()
                client.send(request_)
                assert code(await client.answer()) == (status, reason)
                assert refused(proxy) == [("rejected", status, reason)]
                assert not proxy.records.kind("begin")
            assert not upstream.heard

    play(main)


def test_line_of_a_refused_request_can_be_found_by_its_ids_and_holds_no_path() -> None:
    async def main() -> None:
        some = Upstream("some", "http", "127.0.0.1", free_port(), prefix="/some")
        async with proxying(some) as proxy:
            fields = (b"X-Request-Id: r-1", b"Traceparent: " + TRACE, b"Authorization: secret")
            await (await proxy.client()).ask(get(b"/private?key=secret", *fields))
            await (await proxy.client()).ask(get(b"/private", b"X-Request-Id: a\xe4"))
            one, two = proxy.records.kind("refused")
            assert (one.get("request_id"), one.get("trace_id")) == ("r-1", "ab" * 16)
            assert "request_id" not in two and "trace_id" not in two
            assert b"secret" not in orjson.dumps(one) and b"private" not in orjson.dumps(one)

    play(main)


def test_garbage_behind_a_request_is_refused_for_itself() -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"), b"\x00")
            assert [(await client.answer()).status for _ in range(2)] == [200, 400]
            await client.ended()
            assert refused(proxy) == [("rejected", 400, "bad_request")]
            end = await proxy.records.end()
            assert (end["outcome"], end.get("code")) == ("completed", 200)

    play(main)


@pytest.mark.parametrize(
    ("behind", "status", "reason"),
    [(b"", 408, "request_timeout"), (b"zz\r\n", 400, "bad_request")],
)
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/x"])
def test_upload_that_stalls_or_breaks_is_one_exchange_that_the_proxy_cut(
    path: bytes, behind: bytes, status: int, reason: str
) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.gone()

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, patience=0.1) as proxy,
        ):
            client = await proxy.client()
            client.send(b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" % path)
            client.send(b"Content-Type: application/json\r\n\r\n2\r\n{}\r\n")
            await asyncio.sleep(0.02)
            client.send(behind)
            assert code(await client.answer()) == (status, reason)
            end = await proxy.records.end()
            assert (end["outcome"], end["code"], end["error"]) == ("aborted", status, reason)
            assert refused(proxy) == []

    play(main)


def test_client_that_resets_before_its_task_began_is_recorded() -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            await proxy.client()
            while not proxy.listening.connections():
                await asyncio.sleep(0)
            (connection,) = proxy.listening.connections()
            connection.data_received(STREAM)
            connection.connection_lost(ConnectionResetError())
            end = await proxy.records.end()
            assert (end["outcome"], end["model"], end["stream"]) == ("client_closed", "m", True)
            connection.transport.abort()
            assert not upstream.heard

    play(main)


async def error_of(proxy: Proxy) -> tuple[str, str]:
    client = await proxy.client()
    client.send(STREAM)
    await client.answer()
    end = await proxy.records.end()
    return end["outcome"], end["error"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", "unreachable"),
        (EVENTS, "truncated"),
        (EVENTS + chunk(EVENT), "truncated"),
        (EVENTS + b"5\r\nab", "truncated"),
    ],
)
def test_upstream_that_dies_is_told_from_one_that_resets(
    said: bytes, outcome: str, ending: Ending
) -> None:
    async def main() -> None:
        script = saying(said, ending=ending)
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            got, error = await error_of(proxy)
            assert got == outcome
            reset = {"reset by the upstream"} if ending is not ENDINGS[0] else set()
            assert error in {"closed by the upstream"} - reset | reset

    play(main)


def test_log_says_why_an_exchange_failed() -> None:
    async def main() -> None:
        async with proxying(free_port()) as proxy:
            assert await error_of(proxy) == ("unreachable", "Connection refused")
        for said, expected in (
            (b"SSH-2.0\r\n", ("unreachable", "invalid HTTP from the upstream: ")),
            (EVENTS + b"zz\r\n", ("truncated", "invalid HTTP from the upstream: ")),
            (b"", ("timeout", "the upstream was silent for 0.05 s")),
            (EVENTS, ("timeout", "the upstream was silent for 0.05 s")),
            (
                EVENTS + chunk(EVENT) + chunk(b""),
                ("truncated", "the stream ended without its terminator"),
            ),
        ):
            async with (
                ScriptedUpstream(Silent(said)) as upstream,
                proxying(upstream.port, rules=Rules(idle_timeout=0.05)) as proxy,
            ):
                outcome, error = await error_of(proxy)
                assert (outcome, error[: len(expected[1])]) == expected

    play(main)


def test_refused_request_to_nowhere_is_told_of_as_the_client_heard_it() -> None:
    async def main() -> None:
        async with proxying(Upstream("one", "http", "127.0.0.1", 9, prefix="/good")) as proxy:
            client = await proxy.client()
            head = get(b"/nope", b"Transfer-Encoding: chunked").replace(b"GET", b"POST")
            client.send(head, b"zz\r\n")
            assert (await client.answer()).status == 400
            assert refused(proxy) == [("rejected", 400, "bad_request")]

    play(main)


def test_what_went_well_has_no_error() -> None:
    async def main() -> None:
        async with (
            answering(sized(b"{}", status=b"429 No")) as upstream,
            proxying(upstream.port) as proxy,
        ):
            await (await proxy.client()).ask(post(b"/v1/chat/completions", b"{}"))
            assert "error" not in await proxy.records.end()

    play(main)


def test_bug_of_ours_is_a_500_in_the_log_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(exchange: Exchange) -> None:
        raise RuntimeError("with somebody's text")

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            monkeypatch.setattr("proxy.relay.to_upstream", broken)
            assert (await (await proxy.client()).ask(STREAM)).status == 500
            end = await proxy.records.end()
            assert (end["outcome"], end["code"], end["error"]) == ("aborted", 500, "internal_error")
            monkeypatch.setattr("proxy.relay._json", broken)
            assert (await (await proxy.client()).ask(STREAM)).status == 500
            assert refused(proxy) == [("rejected", 500, "internal_error")]

    play(main)
    assert "somebody" not in capsys.readouterr().err
