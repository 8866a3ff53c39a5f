"""Token counts are asked for where the client did not, and nobody sees that they were."""

import asyncio
import gzip

import orjson
import pytest
from clients import post
from proxy_rig import Clock, play, proxying
from upstreams import EVENTS, ScriptedUpstream, Visit, answering, chunk, sized

from proxy import asking
from proxy.relay import Rules

CHAT = b"/v1/chat/completions"
ASK = b'{"model": "m",  "stream":true, "messages":[{"role":"user","content":"\xc3\xa9"}]}'
SSE = b"Content-Type: text/event-stream; charset=utf-8"


def event(**of: object) -> bytes:
    return b"data: " + orjson.dumps({"id": "c1", "model": "m", **of}) + b"\n\n"


def choice(content: str = "", finish: str | None = None) -> dict[str, object]:
    return {"index": 0, "delta": {"content": content}, "finish_reason": finish}


HELLO = event(choices=[choice("Hello")])
END = event(choices=[choice(finish="stop")])
USAGE = event(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11})
DONE = b"data: [DONE]\n\n"
WHOLE = HELLO + END + USAGE + DONE
TAKEN = HELLO + END + DONE
NO = sized(b'{"error":{"message":"Unrecognized"}}', status=b"400 Bad Request")


def test_usage_is_asked_for_and_its_event_taken_out() -> None:
    async def main() -> None:
        stream = EVENTS + b"".join(chunk(part) for part in (HELLO, END, USAGE, DONE, b""))
        async with answering(stream) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            answer = await client.ask(post(CHAT, ASK, b"Accept-Encoding: gzip, br", b"X-A: 1"))
            assert (answer.body, answer.clean) == (TAKEN, True)
            (heard,) = upstream.heard
            added = ASK[:-1] + b',"stream_options":{"include_usage":true}}'
            assert heard.body == added
            assert heard.values(b"content-length") == [b"%d" % len(added)]
            assert heard.values(b"accept-encoding") == [b"identity"]
            assert heard.values(b"x-a") == [b"1"]
            end = await proxy.records.end()
            assert (end["prompt_tokens"], end["output_tokens"]) == (9, 2)
            assert end["token_source"] == "usage"

    play(main)


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (ASK[:-1] + b', "stream_options": {"include_usage": true}}', Rules()),
        (ASK.replace(b"true", b"false"), Rules()),
        (ASK, Rules(inject_usage=False)),
        (b'{"stream":true, "model":', Rules()),
        (b"not json", Rules()),
        (b"[]", Rules()),
    ],
)
def test_request_that_is_not_to_be_edited_goes_on_as_it_came(body: bytes, rules: Rules) -> None:
    async def main() -> None:
        stream = sized(WHOLE, SSE)
        async with answering(stream) as upstream, proxying(upstream.port, rules=rules) as proxy:
            client = await proxy.client()
            client.send(post(CHAT, body, b"Accept-Encoding: gzip"))
            answer = await client.answer()
            assert answer.body == WHOLE
            assert answer.values(b"content-length") == [b"%d" % len(WHOLE)]
            assert upstream.heard[0].body == body
            assert upstream.heard[0].values(b"accept-encoding") == [b"gzip"]

    play(main)


def test_length_of_a_stream_that_gets_shorter_is_not_told() -> None:
    async def main() -> None:
        async with answering(sized(WHOLE, SSE)) as upstream, proxying(upstream.port) as proxy:
            for version in (b"1.1", b"1.0"):
                client = await proxy.client()
                answer = await client.ask(post(CHAT, ASK).replace(b"1.1", version, 1))
                assert answer.body == TAKEN
                assert not answer.values(b"content-length")

    play(main)


def test_unfinished_event_at_the_end_still_reaches_the_client() -> None:
    async def main() -> None:
        stream = EVENTS + chunk(HELLO + END[:-2]) + chunk(b"")
        async with answering(stream) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(post(CHAT, ASK))
            assert answer.body == HELLO + END[:-2]

    play(main)


@pytest.mark.parametrize("status", [b"400 Bad Request", b"422 Unprocessable Entity"])
def test_upstream_that_refuses_gets_the_original_and_is_not_asked_again(status: bytes) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                heard = await visit.hear()
                bodies.append(heard.body)
                refused = b"include_usage" in heard.body and b"other" not in heard.body
                visit.say(sized(b"{}", status=status) if refused else sized(WHOLE, SSE))

        bodies: list[bytes] = []
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):
                answer = await client.ask(post(CHAT, ASK, b"Accept-Encoding: br"))
                assert (answer.status, answer.body) == (200, WHOLE)
            assert [b"include_usage" in body for body in bodies] == [True, False, False]
            assert bodies[1:] == [ASK, ASK]
            other = ASK.replace(b'"m"', b'"other"')
            assert (await client.ask(post(CHAT, other))).body == TAKEN
            assert len(upstream.visits) == 1
            ends = await proxy.records.ends(3)
            assert [end["code"] for end in ends] == [200] * 3

    play(main)


def test_request_that_is_refused_either_way_says_nothing_about_usage() -> None:
    async def main() -> None:
        own = sized(b'{"error":{"message":"too long"}}', status=b"400 Bad Request")
        answers = [NO, own, sized(WHOLE, SSE)]
        async with answering(*answers) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert (await client.ask(post(CHAT, ASK))).body == b'{"error":{"message":"too long"}}'
            assert (await client.ask(post(CHAT, ASK))).body == TAKEN
            asked = [b"include_usage" in heard.body for heard in upstream.heard]
            assert asked == [True, False, True]

    play(main)


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"404 Not Found", b"500 Oh"])
def test_other_errors_are_passed_on_at_once(status: bytes) -> None:
    async def main() -> None:
        answer = sized(WHOLE, b"Content-Type: application/json", status=status)
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(post(CHAT, ASK))
            assert await client.reader.readexactly(len(answer)) == answer
            assert len(upstream.heard) == 1

    play(main)


def test_refusal_whose_body_never_ends_is_not_waited_for() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            if visit.number == 1:
                visit.say(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                visit.say(sized(WHOLE, SSE))
            await visit.gone()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            answer = await (await proxy.client()).ask(post(CHAT, ASK))
            assert (answer.status, answer.body) == (200, WHOLE)

    play(main)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (gzip.compress(WHOLE), [SSE, b"Content-Encoding: gzip"]),
        (b'{"choices":[],"usage":{}}\n{"a', [b"Content-Type: application/x-ndjson"]),
        (b'{"choices":[],"usage":{}}', [b"Content-Type: application/json"]),
        (USAGE, [b"Content-Type: text/plain"]),
    ],
)
def test_answer_that_is_no_plain_event_stream_passes_as_it_is(
    body: bytes, fields: list[bytes]
) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            whole = sized(body, *fields)
            visit.say(whole[:-1])
            await received.wait()
            visit.say(whole[-1:])
            await visit.gone()

        received = asyncio.Event()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(post(CHAT, ASK))
            head = await client.head()
            assert head.values(b"content-length") == [b"%d" % len(body)]
            assert await client.reader.readexactly(len(body) - 1) == body[:-1]  # not held back
            received.set()
            assert await client.reader.readexactly(1) == body[-1:]

    play(main)


def test_llama_cpp_tells_its_counts_anyhow_and_is_not_asked_again() -> None:
    async def main() -> None:
        timings = event(choices=[choice(finish="stop")], timings={"predicted_n": 2, "prompt_n": 9})
        stream = sized(HELLO + timings + DONE, SSE, b"Server: llama.cpp")
        async with answering(stream) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for _ in range(2):
                assert (await client.ask(post(CHAT, ASK))).body == HELLO + timings + DONE
            asked = [b"include_usage" in heard.body for heard in upstream.heard]
            assert asked == [True, False]

    play(main)


def test_memory_of_who_refuses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of models come from clients."""
    monkeypatch.setattr(asking, "_MAX_REMEMBERED", 2)

    async def main() -> None:
        async def script(visit: Visit) -> None:
            while True:
                heard = await visit.hear()
                asked.append(b"include_usage" in heard.body)
                visit.say(NO if asked[-1] else sized(WHOLE, SSE))

        asked: list[bool] = []
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            for model in (b"m1", b"m2", b"m1", b"m3", b"m3", b"m1"):
                body = ASK.replace(b'"m"', b'"%b"' % model)
                assert (await client.ask(post(CHAT, body))).status == 200
            again = [True, False]
            assert asked == [*again, *again, False, *again, False, *again]

    play(main)


def test_time_begins_when_an_upload_is_complete() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.hear()
            clock.now += 2
            visit.say(sized(b"{}"))
            await visit.gone()

        clock = Clock()
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, clock=clock) as proxy,
        ):
            client = await proxy.client()
            head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
            client.send(head, b"Content-Type: multipart/form-data; boundary=x\r\n\r\n")
            await proxy.records.begun()
            clock.now += 60
            client.send(b"--")
            assert (await client.answer()).status == 200
            assert (await proxy.records.end())["headers_seconds"] == 2

    play(main)
