"""However a stream is cut into reads, the client gets its bytes in order, and only those."""

import asyncio
import itertools

import httpx
import orjson
from clients import post
from handheld import Talk
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_rig import play, proxying
from upstreams import EVENTS, chunk

ASK = post(b"/v1/chat/completions", b'{"model":"m","stream":true}')


def event(**of: object) -> bytes:
    return b"data: " + orjson.dumps({"id": "c1", "model": "m", **of}) + b"\n\n"


def text(content: str) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": content}, "finish_reason": None}])


USAGE = event(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 2})
# Blocks and lines that servers send between their events; some do not end one.
PIECES = st.sampled_from(
    [
        text("Hello"),
        text('\u20ac\u2028 "}\n\n'),
        text('"choices":[],"usage":{}'),
        USAGE,
        USAGE.replace(b"\n\n", b"\r\n\r\n"),
        event(choices=[]),
        b": ping\n\n",
        b": note\n",
        b"id: 7\n",
        b"event: message\n",
        b"data: [DONE]\n\n",
    ]
)


class Handheld(httpx.AsyncBaseTransport):
    """Answers with these reads of a chunked body, one in each turn of the event loop."""

    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        talk = Talk()
        self._saying = asyncio.ensure_future(self._say(talk))
        await talk.ask()
        return httpx.Response(200, headers=talk.connection.incoming.headers, stream=talk.answer)

    async def _say(self, talk: Talk) -> None:
        for data in [EVENTS, *map(chunk, self._reads), chunk(b"")]:
            await asyncio.sleep(0)
            talk.say(data)


def withdrawn(stream: bytes) -> bytes:
    """The stream without its events that only report usage, by the book and slowly."""
    blocks, block = [], b""
    for line in stream.splitlines(keepends=True):
        block += line
        if not line.strip():
            blocks.append(block)
            block = b""
    told = b'"choices":[],"usage":{"prompt_tokens"'
    return b"".join(part for part in [*blocks, block] if told not in part)


@settings(deadline=None, max_examples=60)
@given(st.lists(PIECES, max_size=12), st.lists(st.integers(0, 1500)), st.booleans())
def test_stream_in_any_reads_reaches_the_client_whole_and_in_order(
    pieces: list[bytes], inside: list[int], as_written: bool
) -> None:
    """`as_written`: each piece is a read, so that reads which look like those before occur."""
    stream = b"".join(pieces)
    places = sorted({min(place, len(stream)) for place in inside} | {0, len(stream)})
    cut = [stream[start:end] for start, end in itertools.pairwise(places)]

    async def main() -> None:
        async with proxying(1) as proxy:
            reads = [read for read in (pieces if as_written else cut) if read]
            way = proxy.relay._ways[0]
            proxy.relay._ways = [way._replace(transport=Handheld(reads))]
            answer = await (await proxy.client()).ask(ASK)
            assert answer.clean
            assert answer.body == withdrawn(stream)

    play(main)
