"""Interim answers: 1xx of the upstream reach the client, `Expect` reaches the upstream."""

import asyncio

import pytest
from clients import get, post
from proxy_rig import play, proxying
from upstreams import ScriptedUpstream, Visit, answering, sized

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nKeep-Alive: 5\r\n\r\n"
PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
UPLOAD = b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize("request_", [get(b"/x"), post(b"/v1/chat/completions", b"{}")])
def test_interim_answers_come_at_once_and_in_order(request_: bytes) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def script(visit: Visit) -> None:
            await visit.hear()
            visit.say(PROCESSING, HINTS)
            await go_on.wait()
            visit.say(HINTS, sized(b"ok"))
            await visit.gone()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(request_)
            assert (await client.head()).line == b"HTTP/1.1 102 Processing"
            hints = await client.head()
            assert hints.line == b"HTTP/1.1 103 Early Hints"
            assert hints.headers == [(b"Link", b"</a>; rel=preload")]
            go_on.set()
            assert (await client.head()).status == 103
            assert (await client.answer()).body == b"ok"
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("completed", 200)

    play(main)


def test_old_client_gets_no_interim_answer_and_nobody_a_continue_unasked() -> None:
    async def main() -> None:
        async with (
            answering(CONTINUE + HINTS + sized(b"ok")) as upstream,
            proxying(upstream.port) as proxy,
        ):
            client = await proxy.client()
            assert (await client.ask(b"GET / HTTP/1.0\r\n\r\n")).body == b"ok"
            client = await proxy.client()
            client.send(get(b"/"))
            assert (await client.head()).status == 103
            assert (await client.answer()).body == b"ok"

    play(main)


def test_interim_answer_may_speak_of_the_end_of_the_connection() -> None:
    async def main() -> None:
        odd = b"HTTP/1.1 103 H\r\nConnection: close\r\nA: b\r\n\r\n"
        answers = odd + odd + sized(b"ok")
        async with answering(answers) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            for _ in range(2):
                assert (await client.head()).headers == [(b"A", b"b")]
            assert (await client.answer()).body == b"ok"
            assert "error" not in await proxy.records.end()

    play(main)


def test_lengths_in_interim_answers_are_left_out() -> None:
    async def main() -> None:
        odd = b"HTTP/1.1 103 H\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"
        odd = odd.replace(b"Transfer-Encoding: chunked\r\n", b"")
        async with answering(odd + sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(get(b"/"))
            assert (await client.head()).headers == [(b"A", b"b")]
            assert (await client.answer()).body == b"ok"

    play(main)


def test_upstream_says_whether_a_body_that_streams_shall_come() -> None:
    async def main() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def script(visit: Visit) -> None:
            heard = await visit.head()
            assert heard.values(b"expect") == [b"100-continue"]
            asked.set()
            await go_on.wait()
            visit.say(CONTINUE)
            visit.say(sized(await visit.reader.readexactly(5)))
            await visit.gone()

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, patience=0.05) as proxy,
        ):
            client = await proxy.client()
            client.send(UPLOAD)
            await asked.wait()
            await asyncio.sleep(0.1)  # longer than a client may be silent: it waits for us
            assert not client.reader._buffer  # type: ignore[attr-defined]
            go_on.set()
            assert (await client.head()).line == b"HTTP/1.1 100 Continue"
            client.send(b"hello")
            assert (await client.answer()).body == b"hello"

    play(main)


def test_client_is_told_to_go_on_where_the_upstream_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.client._CONTINUE_SECONDS", 0.02)

    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):
                client.send(UPLOAD)
                assert (await client.head()).line == b"HTTP/1.1 100 Continue"
                client.send(b"hello")
                assert (await client.answer()).body == b"ok"

    play(main)


def test_upload_that_the_upstream_does_not_want_is_not_sent() -> None:
    async def main() -> None:
        refusal = sized(b"no", status=b"413 Too Large")

        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(refusal)
            assert await visit.gone() == b""

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            answer = await client.ask(UPLOAD)
            assert (answer.status, answer.body) == (413, b"no")
            assert answer.values(b"connection") == [b"close"]

    play(main)


def test_client_that_waits_for_nothing_uploads_to_an_upstream_that_says_nothing() -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(UPLOAD)
            await asyncio.sleep(0.02)
            client.send(b"hello")
            assert (await client.answer()).body == b"ok"
            assert upstream.heard[0].body == b"hello"

    play(main)


def test_body_that_is_held_is_asked_for_here() -> None:
    async def main() -> None:
        async with answering(CONTINUE + sized(b"{}")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            whole = post(b"/v1/chat/completions", b"{}", b"Expect: 100-continue")
            client.send(whole[:-2])
            assert (await client.head()).line == b"HTTP/1.1 100 Continue"
            client.send(b"{}")
            assert (await client.answer()).status == 200
            assert not upstream.heard[0].values(b"expect")

    play(main)
