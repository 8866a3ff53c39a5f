"""What is fuzzed: functions of bytes that raise where a promise is broken."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from handheld import Options, Talk, Wire
from playing import ASK, play
from uvicorn.config import Config
from uvicorn.server import ServerState

from proxy.address import Upstream
from proxy.admission import fault
from proxy.client import Client
from proxy.encoding import Undecodable, decoder
from proxy.errors import Failure
from proxy.eventstream import Frames
from proxy.exchange import refusal
from proxy.formats import interface
from proxy.framing import framing_of
from proxy.headers import Fields, Pair, to_client, to_upstream
from proxy.injection import Withdrawal, ask_usage
from proxy.jsontext import Elements, edges
from proxy.listener import ClientProtocol
from proxy.relay import _json
from proxy.routing import Way, route

KINDS = [
    "text/event-stream",
    "application/x-ndjson",
    "application/json",
    "application/vnd.amazon.eventstream",
]
CODINGS = ["", "gzip", "deflate", "br", "zstd", "gzip, br"]
PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/api/chat",
    "/api/generate",
    "/completion",
    "/generate",
    "/v1beta/models/m:streamGenerateContent",
    "/model/m/converse-stream",
    "/v2/chat",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/audio/transcriptions",
]


def _pieces(data: bytes) -> list[bytes]:
    """The bytes behind the first, in reads of a length that the first one says."""
    size = 1 + data[0] if data else 1
    return [data[at : at + size] for at in range(1, len(data), size)]


def _pairs(data: bytes) -> list[Pair]:
    lines = data.split(b"\n")
    return [(name, value) for name, _, value in (line.partition(b":") for line in lines)]


def framing(data: bytes) -> None:
    """However it is cut, the payloads are the same."""
    for kind in KINDS[:3]:
        whole, cut = framing_of(kind), framing_of(kind)
        assert whole is not None and cut is not None
        found = whole.feed(data[1:]) + whole.end()
        singly = list(itertools.chain.from_iterable(cut.feed(read) for read in _pieces(data)))
        assert whole.overflowed or found == singly + cut.end()


def frames(data: bytes) -> None:
    """Frames are the same however they are cut."""
    whole, cut = Frames(), Frames()
    found = whole.feed(data[1:])
    assert found == [frame for read in _pieces(data) for frame in cut.feed(read)]


def jsontext(data: bytes) -> None:
    """What comes out of the ends of a text is JSON, where the text was."""
    elements = Elements()
    for read in _pieces(data):
        elements.feed(read)
    found = edges(data[: len(data) // 2], data[len(data) // 2 :])
    with contextlib.suppress(orjson.JSONDecodeError):
        orjson.loads(data)
        orjson.loads(found)


def meter(data: bytes) -> None:
    """No answer raises, and no number is negative or infinite."""
    if len(data) < 3:
        return
    kind, path = KINDS[data[0] % len(KINDS)], PATHS[data[1] % len(PATHS)]
    coding = CODINGS[data[2] % len(CODINGS)]
    reads = [(100.0 + at, read) for at, read in enumerate(_pieces(data[2:]))]
    played = play(reads, path, ASK, kind=kind, encoding=coding)
    totals = played.totals
    for number in (totals.prompt, totals.cached, totals.output, totals.reasoning, played.rate):
        assert number is None or 0 <= number < float("inf")


def request(data: bytes) -> None:
    """No body raises; one that asks for usage is the same object but for that."""
    for path in PATHS:
        interface(path).call(_json(interface(path), data), path)
    edited = ask_usage(data)
    try:
        before = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    if edited is not None and isinstance(before, dict):
        after = orjson.loads(edited)
        assert after["stream_options"]["include_usage"] is True
        for one in (before, after):
            one.pop("stream_options", None)
        assert before == after


def withdrawal(data: bytes) -> None:
    """What is kept are bytes that came, in their order, and the same however they are cut."""
    whole, cut = Withdrawal(), Withdrawal()
    kept = whole.feed(data[1:]) + whole.end()
    assert kept == b"".join(cut.feed(read) for read in _pieces(data)) + cut.end()
    rest = iter(data[1:])
    assert all(byte in rest for byte in kept)


def headers(data: bytes) -> None:
    """What is hop by hop does not cross, and every value that does is as it came."""
    pairs = _pairs(data)
    Fields(pairs)
    for passed in (to_upstream(pairs, b"host"), to_client(pairs, event_stream=False)):
        assert not {name.lower() for name, _ in passed} & {b"connection", b"transfer-encoding"}
        assert all(pair in pairs or pair[1] == b"host" for pair in passed)
    record = refusal(Failure(400, "x", "x"), Fields(pairs), 0.0)
    assert record.get("request_id", "x").isprintable()
    orjson.dumps(record)


def encoding(data: bytes) -> None:
    """What cannot be decoded is told as such."""
    for coding in CODINGS[1:]:
        with contextlib.suppress(Undecodable):
            found = decoder(coding)
            assert found is not None
            for read in _pieces(data):
                found.feed(read)


def addresses(data: bytes) -> None:
    """An upstream's URL is taken or refused in one line that does not hold it."""
    with contextlib.suppress(ValueError):
        found = Upstream.parse("a", data.decode("latin-1"))
        assert Upstream.parse("a", found.url) == found


def targets(data: bytes) -> None:
    """A target goes to an upstream, below its base, or is refused."""
    way = Way(Upstream.parse("a", "http://a:1/base", "/p"), cast(Any, None))
    found = route([way], data)
    if not isinstance(found, Failure):
        assert found[1].startswith(b"/base/")
    fault("1.1", data.partition(b"\n")[0], _pairs(data))


def listener(data: bytes) -> None:
    """Whatever a client says, nothing raises, and each request has one host and a method."""
    asyncio.run(_listen(data))


async def _listen(data: bytes) -> None:
    seen: list[Client] = []

    async def app(client: Client) -> None:
        seen.append(client)
        async for _ in client.stream():
            pass
        client.start(200, b"", [])
        client.end()

    loop, state = asyncio.get_running_loop(), ServerState()
    config = Config(cast(Any, app), ws="none", lifespan="off", log_config=None)
    given = {
        "clock": loop.time,
        "patience": 1.0,
        "send_limit": None,
        "refused": lambda self, failure: None,
    }
    protocol = type("Fuzzed", (ClientProtocol,), given)(config, state, {}, loop)
    wire = Plug()
    protocol.connection_made(wire)
    for read in _pieces(data):
        if not wire.is_closing():
            protocol.data_received(read)
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    if state.tasks:
        await asyncio.wait(set(state.tasks))
    for client in seen:
        assert client.method and sum(n.lower() == b"host" for n, _ in client.headers) <= 1


class Named(Options):
    """A socket that has addresses."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getpeername = getsockname


class Plug(Wire):
    """A client's end that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self._extra = {"socket": Named()}
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._closing = True


def connection(data: bytes) -> None:
    """Whatever an upstream says, there is an answer or an error of httpx's."""
    asyncio.run(_answer(data))


async def _answer(data: bytes) -> None:
    talk = Talk()
    asking = asyncio.ensure_future(talk.ask())
    await asyncio.sleep(0)
    for read in _pieces(data):
        if not talk.wire.aborted:
            talk.say(read)
    talk.connection.connection_lost(None)
    await asyncio.gather(asking, return_exceptions=True)
    problem = asking.exception()
    assert problem is None or type(problem).__module__ == "httpx", problem
    if problem is None:
        assert 100 <= talk.connection.incoming.status <= 999
    talk.answer.close()


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        framing,
        frames,
        jsontext,
        meter,
        request,
        withdrawal,
        headers,
        encoding,
        addresses,
        targets,
        listener,
        connection,
    )
}


def seeds() -> Iterator[bytes]:
    """Inputs to begin with: answers of real servers, and HTTP."""
    yield b"\x07GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"\x07POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    yield b"\x07HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    yield b'{"model":"m","stream":true,"stream_options":{"include_usage":false},"messages":[]}'
    yield b"http://127.0.0.1:8000/base"
    yield b"/p/a/%2e%2e/b?c"
    for path in sorted(Path(__file__).parent.joinpath("recordings").rglob("*")):
        if path.is_file() and path.stat().st_size < 20_000:
            yield b"\x00\x00\x00\x1f" + path.read_bytes()
