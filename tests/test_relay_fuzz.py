"""Any bytes from clients and upstreams: what passes is HTTP to a strict reader (h11), or is cut."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import h11
from clients import RawClient, get
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy_rig import play, proxying
from upstreams import ScriptedUpstream, Visit, sized

from proxy.relay import Rules

SLOW = [HealthCheck.too_slow]
LINES = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\n",
        b"HEAD /x HTTP/1.1\r\n",
        b"FOO /x HTTP/1.1\r\n",
        b"GET /x HTTP/1.0\r\n",
        b"GET http://a/x HTTP/1.1\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
    ]
)
FIELDS = st.sampled_from(
    [
        b"Host: a\r\n",
        b"Host: a\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 05\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length: +5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: \tchunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n",
        b"Transfer_Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: content-length, transfer-encoding\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
        b"Expect: 100-continue\r\n",
        b"X-A: b\r\n",
        b"X-A: b\n",
        b"X-A: b\r",
        b"X\x00A: b\r\n",
        b" X-A: b\r\n",
        b"TE: trailers\r\n",
    ]
)
BODIES = st.sampled_from(
    [
        b"",
        b"hello",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
        b"05\r\nhello\r\n00\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffff5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n",
    ]
)
REQUESTS = st.builds(
    lambda line, fields, body: line + b"".join(fields) + b"\r\n" + body,
    LINES,
    st.lists(FIELDS, max_size=5),
    BODIES,
)


class Strict:
    """An upstream that reads with h11, and notes what it cannot read."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, bytes, bytes]] = []  # method, target, body
        self.problems: list[h11.RemoteProtocolError] = []

    async def __call__(self, visit: Visit) -> None:
        http = h11.Connection(h11.SERVER)
        seen: tuple[bytes, bytes] | None = None
        body, over = b"", False
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as problem:
                if not over:  # what is cut off cannot be whole
                    self.problems.append(problem)
                return
            if event is h11.NEED_DATA:
                data = await visit.reader.read(1 << 16)
                over = not data
                http.receive_data(data)
            elif isinstance(event, h11.Request):
                seen = event.method, event.target
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and seen is not None:
                self.requests.append((*seen, body))
                visit.say(sized(b"" if seen[0] == b"HEAD" else b"ok"))
                seen, body = None, b""
                if http.our_state is h11.SEND_RESPONSE:
                    http.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                    http.send(h11.EndOfMessage())
                if http.our_state is h11.MUST_CLOSE or http.states[h11.CLIENT] is not h11.DONE:
                    return
                http.start_next_cycle()
            else:
                return


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(edges)]


async def spoken(client: RawClient, reads: Sequence[bytes]) -> None:
    """Say this, and wait until nothing more comes."""
    for read in reads:
        if client.writer.is_closing():
            break
        client.send(read)
        await asyncio.sleep(0)
    try:
        async with asyncio.timeout(0.05):
            await client.reader.read(-1)
    except (TimeoutError, ConnectionError):
        pass
    client.leave()


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(st.lists(REQUESTS, min_size=1, max_size=3), st.lists(st.integers(0, 1 << 16), max_size=4))
def test_what_reaches_an_upstream_is_what_a_strict_server_takes_for_the_same(
    requests: list[bytes], cuts: list[int]
) -> None:
    async def main() -> None:
        strict = Strict()
        async with (
            ScriptedUpstream(strict) as upstream,
            proxying(upstream.port, patience=0.03) as proxy,
        ):
            await spoken(await proxy.client(), pieces(b"".join(requests), cuts))
            while proxy.listening.connections() or proxy.listening.state.tasks:
                await asyncio.sleep(0)
            assert not strict.problems
            targets = [target for _, target, _ in strict.requests]
            if b"/smuggled" in targets:  # then it stood for itself, behind a body-less request
                assert len(proxy.records.kind("begin")) >= len(targets)
            assert len(proxy.records.kind("begin")) == len(proxy.records.kind("end"))
            assert len(strict.requests) <= len(proxy.records.kind("begin"))

    play(main)


STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 103 Hints\r\n",
        b"HTTP/1.1 101 Switch\r\n",
        b"HTTP/1.1 204 None\r\n",
        b"HTTP/1.1 304 Same\r\n",
        b"HTTP/1.1 000 Zero\r\n",
        b"HTTP/1.1 999 O\x00\r\n",
        b"HTTP/2.0 200 OK\r\n",
        b"",
    ]
)
ANSWERS = st.builds(
    lambda line, fields, body: line + b"".join(fields) + b"\r\n" + body,
    STATUS,
    st.lists(FIELDS, max_size=4),
    BODIES,
)


def read_strictly(said: bytes) -> bool:
    """Whether a strict client sees one whole answer, and nothing wrong, in all that was said."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    http.send(h11.EndOfMessage())
    http.receive_data(said)
    http.receive_data(b"")
    while True:
        try:
            event = http.next_event()
        except h11.RemoteProtocolError as problem:
            assert "closed" in str(problem) or "incomplete" in str(problem), problem
            return False
        if isinstance(event, h11.EndOfMessage):
            assert http.trailing_data[0] == b""
            return True


@asynccontextmanager
async def answered(said: Sequence[bytes]) -> AsyncIterator[ScriptedUpstream]:
    async def script(visit: Visit) -> None:
        await visit.head()
        for read in said:
            visit.say(read)
            await visit.writer.drain()
            await asyncio.sleep(0)

    async with ScriptedUpstream(script) as upstream:
        yield upstream


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(st.lists(ANSWERS, min_size=1, max_size=2), st.lists(st.integers(0, 1 << 16), max_size=4))
def test_what_reaches_a_client_is_one_answer_to_a_strict_reader_or_is_cut(
    answers: list[bytes], cuts: list[int]
) -> None:
    async def main() -> None:
        async with (
            answered(pieces(b"".join(answers), cuts)) as upstream,
            proxying(upstream.port, rules=Rules(idle_timeout=5.0)) as proxy,
        ):
            client = await proxy.client()
            client.send(get(b"/", b"Connection: close"))
            whole = read_strictly(await client.ended())
            end = await proxy.records.end()
            assert whole is (end["outcome"] in ("completed", "rejected", "unreachable"))

    play(main)
