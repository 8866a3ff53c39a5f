"""WebSockets and their like: bytes both ways, and an end in every case."""

import asyncio

import pytest
from clients import RawClient, get
from proxy_rig import Clock, Proxy, play, promptly, proxying
from test_relay_failures import code
from upstreams import Heard, ScriptedUpstream, Visit, answering, sized

from proxy.relay import Rules

OFFER = (
    b"Connection: keep-alive, Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
ASK = get(b"/v1/realtime?model=m", *OFFER)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
CLOSE = b"\x88\x02\x0f\xa1"  # a close frame with code 4001


class Realtime:
    """Takes up the offer; says back what it hears, until it hears the end."""

    def __init__(self, early: bytes = b"") -> None:
        self._early = early
        self.heard: list[Heard] = []
        self.open = asyncio.Event()
        self.closed = asyncio.Event()

    async def __call__(self, visit: Visit) -> None:
        self.heard.append(await visit.head())
        visit.say(SWITCH + self._early)
        self.open.set()
        try:
            while data := await visit.reader.read(1 << 16):
                visit.say(data)
                await visit.writer.drain()
                if data.endswith(CLOSE):
                    break
        finally:
            self.closed.set()


async def opened(proxy: Proxy, receive_bytes: int | None = None) -> RawClient:
    client = await proxy.client(receive_bytes)
    client.send(ASK)
    assert (await client.head()).status == 101
    return client


def test_bytes_go_both_ways_and_the_exchange_is_counted_but_not_metered() -> None:
    async def main() -> None:
        script, clock = Realtime(early=b"early"), Clock()
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, clock=clock) as proxy,
        ):
            client = await proxy.client()
            client.send(ASK)
            head = await client.head()
            assert head.line == b"HTTP/1.1 101 Switching Protocols"
            assert head.values(b"connection") == [b"Upgrade"]
            assert head.values(b"upgrade") == [b"websocket"]
            assert head.values(b"sec-websocket-accept") == [b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]
            assert not head.values(b"transfer-encoding")
            assert await client.reader.readexactly(5) == b"early"
            for data in (b"\x81\x05hello", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n"):
                client.send(data)
                assert await client.reader.readexactly(len(data)) == data
            clock.now += 90
            client.send(CLOSE)
            assert await client.reader.readexactly(4) == CLOSE
            assert await client.ended() == b""
            (heard,) = script.heard
            assert heard.line == b"GET /v1/realtime?model=m HTTP/1.1"
            assert heard.values(b"upgrade") == [b"websocket"]
            assert heard.values(b"connection") == [b"Upgrade"]
            assert heard.values(b"sec-websocket-key") == [b"dGhlIHNhbXBsZSBub25jZQ=="]
            end = await proxy.records.end()
            assert (end["outcome"], end["code"], end["api"]) == ("completed", 101, "other")
            assert end["duration_seconds"] == 90
            assert (end["received_bytes"], end["sent_bytes"]) == (7 + 256 + 18 + 4, 290)
            assert "answered" not in end or not end["answered"]
            assert not proxy.records.outputs()
            assert "error" not in end

    play(main)


@pytest.mark.parametrize("status", [b"200 OK", b"426 Upgrade Required", b"401 Unauthorized"])
def test_upstream_that_does_not_take_it_up_gives_an_ordinary_answer(status: bytes) -> None:
    refusal = sized(b"no", b"Connection: upgrade", b"Upgrade: websocket", status=status)

    async def main() -> None:
        async with answering(refusal, sized(b"next")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            answer = await client.ask(ASK)
            assert (answer.status, answer.body) == (int(status[:3]), b"no")
            assert not answer.values(b"upgrade")
            client.send(get(b"/2"), get(b"/3"))  # HTTP goes on
            assert (await client.answer()).body == b"next"
            assert (await client.answer()).body == b"next"
            assert [heard.target for heard in upstream.heard[1:]] == [b"/2", b"/3"]
            ends = await proxy.records.ends(3)
            assert "received_bytes" not in ends[0]

    play(main)


@pytest.mark.parametrize(
    "request_",
    [
        get(b"/", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: x"),
        get(b"/", b"Connection: Upgrade", b"Upgrade: websocket, H2C"),
        get(b"/", b"Connection: Upgrade", b"Upgrade: TLS/1.0, HTTP/1.1"),
        get(b"/", b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 2") + b"hi",
        get(b"/", b"Connection: Upgrade", b"Upgrade: a", b"Transfer-Encoding: chunked")
        + b"0\r\n\r\n",
        get(b"/", b"Upgrade: websocket"),
        b"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_other_offers_are_not_passed_on(request_: bytes) -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            assert (await (await proxy.client()).ask(request_)).body == b"ok"
            assert not upstream.heard[0].values(b"upgrade")
            assert not upstream.heard[0].values(b"connection")

    play(main)


def test_what_comes_behind_an_offer_before_its_answer_is_http() -> None:
    async def main() -> None:
        async with answering(sized(b"ok")) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(ASK, get(b"/2"))
            assert (await client.answer()).body == b"ok"
            assert (await client.answer()).body == b"ok"
            assert not upstream.heard[0].values(b"upgrade")

    play(main)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (ASK, SWITCH.replace(b"connection: upgrade\r\n", b"")),
        (ASK, SWITCH.replace(b"connection: upgrade\r\n", b"") + b"early"),
        (ASK, SWITCH.replace(b"connection: upgrade", b"connection: keep-alive") + b"early"),
        (ASK, SWITCH.replace(b"Upgrade: websocket\r\n", b"")),
        (ASK, SWITCH.replace(b"Upgrade: websocket\r\n", b"Upgrade: other\r\n")),
        (ASK, SWITCH.replace(b"\r\n\r\n", b"\r\nUpgrade: websocket\r\n\r\n")),
        (get(b"/"), SWITCH),
    ],
)
def test_switch_to_nothing_to_something_else_or_unasked_is_no_answer(
    request_: bytes, answer: bytes
) -> None:
    async def main() -> None:
        async with answering(answer) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            assert code(await client.ask(request_)) == (502, "upstream_unreachable")

    play(main)


@pytest.mark.parametrize("how", ["leave", "reset"])
def test_client_that_leaves_takes_the_upstream_along(how: str) -> None:
    async def main() -> None:
        script = Realtime()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy)
            getattr(client, how)()
            await promptly(script.closed.wait())
            end = await proxy.records.end()
            expected = {"leave": "completed", "reset": "client_closed"}[how]
            assert (end["outcome"], end.get("error")) == (
                expected,
                "reset by the client" if how == "reset" else None,
            )
            while proxy.listening.connections() or proxy.listening.state.tasks:
                await asyncio.sleep(0)

    play(main)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_upstream_that_dies_takes_the_client_along(how: str) -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(SWITCH, b"last words")
            await visit.writer.drain()
            await visit.reader.readexactly(1)
            getattr(visit, how)()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy)
            assert await client.reader.readexactly(10) == b"last words"
            client.send(b"x")
            assert await client.ended() == b""
            end = await proxy.records.end()
            expected = {"close": "completed", "reset": "truncated"}[how]
            assert (end["outcome"], end["sent_bytes"]) == (expected, 10)

    play(main)


def test_upstream_that_closes_right_behind_its_101_is_no_accident() -> None:
    async def main() -> None:
        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(SWITCH, CLOSE)

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy)
            assert await client.ended() == CLOSE
            assert (await proxy.records.end())["outcome"] == "completed"

    play(main)


async def standing(count: list[int]) -> None:
    """Wait until it does not change any more."""
    before = -1
    while before != count[0]:
        before = count[0]
        await asyncio.sleep(0.05)


def test_client_that_reads_nothing_stops_the_upstream() -> None:
    async def main() -> None:
        sent = [0]

        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(SWITCH)
            while True:
                visit.say(b"x" * 65536)
                await visit.writer.drain()
                sent[0] += 65536

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy, receive_bytes=4096)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await standing(sent)
            assert sent[0] < 32 << 20
            before = sent[0]
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                await client.reader.readexactly(65536)
            assert sent[0] > before
            client.reset()
            end = await proxy.records.end()
            assert end["sent_bytes"] >= 200 * 65536

    play(main)


def test_client_that_reads_nothing_is_let_go_after_a_while() -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def script(visit: Visit) -> None:
            await visit.head()
            visit.say(SWITCH)
            try:
                while True:
                    visit.say(b"x" * 65536)
                    await visit.writer.drain()
            except ConnectionError:
                closed.set()

        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, send_limit=0.02) as proxy,
        ):
            client = await opened(proxy, receive_bytes=4096)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            end = await proxy.records.end()
            assert (end["outcome"], end["code"]) == ("client_closed", 101)
            assert end["error"] == "the client took nothing for 0.02 s"
            await closed.wait()

    play(main)


def test_upstream_that_reads_nothing_stops_the_client_and_one_that_leaves_then_is_noticed() -> None:
    async def main() -> None:
        sent = [0]
        gone = asyncio.Event()

        async def script(visit: Visit) -> None:
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            visit.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await visit.head()
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            visit.say(SWITCH)
            await gone.wait()

        async def flood(client: RawClient) -> None:
            while True:
                client.send(b"x" * 65536)
                await client.writer.drain()
                sent[0] += 65536

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy)
            flooding = asyncio.ensure_future(flood(client))
            await standing(sent)
            assert sent[0] < 32 << 20
            flooding.cancel()
            client.reset()
            end = await proxy.records.end()
            assert end["outcome"] == "client_closed"
            gone.set()

    play(main)


@pytest.mark.parametrize("moving", [False, True])
def test_tunnel_that_is_silent_for_too_long_is_cut(moving: bool) -> None:
    async def main() -> None:
        script = Realtime()
        async with (
            ScriptedUpstream(script) as upstream,
            proxying(upstream.port, rules=Rules(idle_timeout=0.2)) as proxy,
        ):
            client = await opened(proxy)
            for _ in range(8 if moving else 0):
                client.send(b"x")
                assert await client.reader.readexactly(1) == b"x"
                await asyncio.sleep(0.05)
            assert await client.ended() == b""
            await script.closed.wait()
            end = await proxy.records.end()
            assert (end["outcome"], end["error"]) == ("timeout", "nothing came for 0.2 s")
            assert end["sent_bytes"] == (8 if moving else 0)

    play(main)


def test_drain_cuts_what_has_not_ended_by_then() -> None:
    """As uvicorn does: it tells the connection, and cancels the task when the time is over."""

    async def main() -> None:
        script = Realtime()
        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await opened(proxy)
            for connection in proxy.listening.connections():
                connection.shutdown()
            client.send(b"still there")
            assert await client.reader.readexactly(11) == b"still there"
            (task,) = proxy.listening.state.tasks
            task.cancel()
            assert await client.ended() == b""
            await script.closed.wait()
            end = await proxy.records.end()
            assert (end["outcome"], end["code"], end["error"]) == ("aborted", 101, "draining")
            assert end["received_bytes"] == 11

    play(main)


def test_no_protocol_is_switched_while_draining() -> None:
    async def main() -> None:
        async with answering(SWITCH) as upstream, proxying(upstream.port) as proxy:
            proxy.relay.draining = True
            assert code(await (await proxy.client()).ask(ASK)) == (503, "draining")
            assert not upstream.heard

    play(main)


def test_client_that_leaves_before_the_answer_to_its_offer_is_noticed() -> None:
    async def main() -> None:
        asked, closed = asyncio.Event(), asyncio.Event()

        async def script(visit: Visit) -> None:
            await visit.head()
            asked.set()
            await visit.gone()
            closed.set()

        async with ScriptedUpstream(script) as upstream, proxying(upstream.port) as proxy:
            client = await proxy.client()
            client.send(ASK)
            await asked.wait()
            client.leave()
            await promptly(closed.wait())
            assert (await proxy.records.end())["outcome"] == "client_closed"

    play(main)
