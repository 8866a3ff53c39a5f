"""What readers and others send to the admin port, over real sockets."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channel_rig import until
from clients import RawClient
from proxy_rig import play
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from proxy.admin import admin
from proxy.adminport import AdminProtocol, Bounds

ASK = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENT = Bounds(connections=100)
BIG = 70_000  # bytes, more than a request may have


class Page:
    """An application with one page, as large as it is told to."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.asked = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        await self.go_on.wait()
        length = (b"content-length", b"%d" % self.size)
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"x" * self.size})


class Timer:
    """A call that is to come."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.over = False

    def cancel(self) -> None:
        self.over = True


class Loop:
    """The event loop, with a clock that the test moves."""

    def __init__(self) -> None:
        self.create_task = asyncio.get_running_loop().create_task
        self._now = 0.0
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self._now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self._now + seconds, call))
        return self._timers[-1]

    def after(self, seconds: float) -> None:
        """So much later."""
        self._now += seconds
        for timer in [one for one in self._timers if one.at <= self._now]:
            self._timers.remove(timer)
            if not timer.over:
                timer.call()


class Port:
    """An admin port on a free port."""

    def __init__(self, number: int, state: ServerState, after: Callable[[float], None]) -> None:
        self._number = number
        self._state = state
        self.after = after
        self._clients: list[RawClient] = []

    async def client(self, receive_bytes: int | None = None) -> RawClient:
        client = await RawClient.connect(self._number, receive_bytes)
        self._clients.append(client)
        return client

    def connections(self) -> int:
        return len(self._state.connections)

    async def settled(self) -> None:
        """Wait until what was sent has been read."""
        for _ in range(20):
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await until(lambda: not self.connections())


@asynccontextmanager
async def serving(app: Any, bounds: Bounds = PATIENT) -> AsyncIterator[Port]:
    loop = Loop()
    config = Config(app, ws="none", lifespan="off", log_config=None)
    state = ServerState()

    def connection() -> AdminProtocol:
        return AdminProtocol(config, state, {}, loop, bounds=bounds)

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    port = Port(server.sockets[0].getsockname()[1], state, loop.after)
    try:
        yield port
    finally:
        await port.close()
        server.close()


def health() -> Any:
    """The real application, always well."""
    return admin(list, lambda: None)


def asked(*, fields: bytes = b"", target: bytes = b"/healthz") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"


TOO_LONG = {
    "many fields": asked(fields=b"X: y\r\n" * 300),
    "long field": asked(fields=b"X: " + b"y" * BIG + b"\r\n"),
    "long name": asked(fields=b"x" * BIG + b": y\r\n"),
    "long target": asked(target=b"/" + b"a" * BIG),
    "many fields without an end": asked(fields=b"X: y\r\n" * 300)[:-2],
    "field without an end": asked(fields=b"X: " + b"y" * BIG)[:-2],
    "name without an end": asked(fields=b"x" * BIG)[:-2],
    "target without an end": b"GET /" + b"a" * BIG,
}


@pytest.mark.parametrize("cut", [0, 5000], ids=["in one write", "in pieces"])
@pytest.mark.parametrize("request_", TOO_LONG.values(), ids=TOO_LONG)
def test_a_long_head_is_refused_and_not_held(request_: bytes, cut: int) -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            for at in range(0, len(request_), cut or len(request_)):
                client.send(request_[at : at + (cut or len(request_))])
                await asyncio.sleep(0)
            client.send(b"")
            # What the parser has of a line is only counted with the next read.
            if b"\r\n\r\n" not in request_:
                client.send(b"z" * BIG)
            answer = await client.answer()
            assert (answer.status, answer.values(b"connection")) == (431, [b"close"])
            assert await client.ended() == b""

    play(main)


BODY = b"POST /healthz HTTP/1.1\r\nHost: a\r\n"
CHUNKED = BODY + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n" * 1000),
    "a trailer": (CHUNKED + b"0\r\nX: ", b"y" * 6000),
    "chunk extension": (CHUNKED + b"1;", b"e" * 6000),
    "chunks": (CHUNKED, b"1\r\nx\r\n" * 1000),
    "body": (BODY + b"Content-Length: 100000000\r\n\r\n", b"x" * 6000),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_behind_a_head_is_answered_and_cut(begin: bytes, more: bytes) -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(begin)
            assert (await client.answer()).status == 405
            for _ in range(20):
                client.send(more)
                await asyncio.sleep(0)
            assert await client.ended() == b""

    play(main)


def test_trailers_are_not_kept_and_the_next_request_is_served() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            sent = b"1\r\nx\r\n0\r\nHost: b\r\nX: y\r\n\r\n"
            assert (await client.ask(CHUNKED, sent)).status == 405
            assert (await client.ask(ASK)).body == b"ok\n"

    play(main)


def test_a_request_of_the_size_that_is_allowed_is_served() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            for fields in (b"X: " + b"y" * 65_000 + b"\r\n", b"X: y\r\n" * 255):
                assert (await client.ask(asked(fields=fields))).body == b"ok\n"

    play(main)


@pytest.mark.parametrize(
    ("begun", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nHo", b"HTTP/1.1 408 Request Timeout\r\n"),
        (ASK + b"G", b"HTTP/1.1 408 Request Timeout\r\n"),
        (BODY + b"Content-Length: 9\r\n\r\n12", b""),
        (CHUNKED + b"1", b""),
        (CHUNKED + b"0\r\nX: y", b""),
    ],
    ids=["nothing", "half a head", "half a second head", "half a body", "half a size", "trailers"],
)
def test_who_sends_half_a_request_is_not_waited_for(begun: bytes, answer: bytes) -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(begun)
            if b"\r\n\r\n" in begun:
                assert (await client.answer()).status in (200, 405)
            await port.settled()
            port.after(9.9)
            await port.settled()
            assert not client.reader.at_eof()
            port.after(0.2)
            said = await client.ended()
            assert said.startswith(answer)
            assert bool(said) == bool(answer)

    play(main)


def test_who_was_told_of_it_and_stays_is_cut() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(b"GET")
            await port.settled()
            port.after(10)
            assert (await client.answer()).status == 408
            client.send(ASK)
            await port.settled()
            port.after(1.9)
            await port.settled()
            assert port.connections()
            port.after(0.2)
            await until(lambda: not port.connections())

    play(main)


def test_byte_by_byte_takes_no_longer() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(b"GET /healthz HTTP/1.1\r\nX: ")
            for _ in range(11):
                client.send(b"y")
                await port.settled()
                port.after(1)
            assert (await client.answer()).status == 408
            assert await client.ended() == b""

    play(main)


def test_an_idle_connection_is_closed_and_can_be_used_before() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            for _ in range(20):
                assert (await client.ask(ASK)).status == 200
                port.after(4)
            port.after(2)
            assert await client.ended() == b""

    play(main)


def test_a_page_may_take_its_time() -> None:
    async def main() -> None:
        page = Page()
        page.go_on.clear()
        async with serving(page) as port:
            client = await port.client()
            client.send(ASK)
            await until(lambda: page.asked)
            port.after(1000)
            page.go_on.set()
            assert (await client.answer()).body == b"xxx"

    play(main)


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
@pytest.mark.parametrize("more", [b"", ASK], ids=["one", "pipelined"])
def test_who_does_not_read_a_page_is_cut(last: bytes, more: bytes) -> None:
    async def main() -> None:
        page = Page(10_000_000)
        async with serving(page) as port:
            client = await port.client(receive_bytes=4096)
            client.send(asked(fields=last), more)
            await until(lambda: page.asked)
            await port.settled()
            port.after(59)
            await port.settled()
            assert port.connections()
            port.after(2)
            await until(lambda: not port.connections())
            assert not (await client.answer()).clean

    play(main)


def test_a_page_that_is_read_slowly_is_not_cut_like_a_late_request() -> None:
    async def main() -> None:
        page = Page(10_000_000)
        async with serving(page) as port:
            client = await port.client(receive_bytes=4096)
            client.send(ASK)
            await until(lambda: page.asked)
            await port.settled()
            port.after(50)
            answer = await client.answer()
            assert (len(answer.body), answer.clean) == (page.size, True)

    play(main)


def test_the_longest_wait_makes_room() -> None:
    async def main() -> None:
        async with serving(health(), Bounds(connections=5)) as port:
            silent = [await port.client() for _ in range(4)]
            kept = await port.client()
            for _ in range(20):
                port.after(0.1)
                assert (await kept.ask(ASK)).status == 200  # now it waits for less than the others
                port.after(0.1)
                one = await port.client()
                assert (await one.ask(ASK)).body == b"ok\n"
                assert port.connections() <= 5
            for client in silent:
                assert await client.ended() == b""

    play(main)


def test_who_is_being_answered_makes_no_room() -> None:
    async def main() -> None:
        page = Page()
        page.go_on.clear()
        async with serving(page, Bounds(connections=3)) as port:
            busy = [await port.client() for _ in range(3)]
            for client in busy:
                client.send(ASK)
            await until(lambda: page.asked == 3)
            one = await port.client()
            assert await one.ended() == b""
            page.go_on.set()
            for client in busy:
                assert (await client.answer()).body == b"xxx"

    play(main)


def test_many_requests_at_once_are_not_all_held() -> None:
    async def main() -> None:
        page = Page()
        async with serving(page) as port:
            client = await port.client()
            client.send(b"GET / HTTP/1.1\r\n\r\n" * 1000)
            answered = (await client.ended()).count(b"200 OK")
            assert answered == page.asked
            assert 2 < answered < 20

    play(main)


def test_some_requests_at_once_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(ASK, asked(target=b"/readyz"), asked(target=b"/none"), ASK)
            for body in (b"ok\n", b"ready\n", b"Not Found", b"ok\n"):
                assert (await client.answer()).body == body
            assert (await client.ask(ASK)).body == b"ok\n"

    play(main)


@pytest.mark.parametrize(
    "nonsense", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x00" * 9]
)
@pytest.mark.parametrize("before", [b"", ASK])
def test_what_is_no_http_ends_the_connection_behind_the_answer_of_what_was(
    nonsense: bytes, before: bytes
) -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            client.send(before, nonsense)
            said = await client.ended()
            assert said.count(b"HTTP/1.1 ") == 1
            assert said.startswith(b"HTTP/1.1 200 OK" if before else b"HTTP/1.1 400 Bad Request")

    play(main)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_another_protocol_is_not_spoken(protocol: bytes) -> None:
    async def main() -> None:
        async with serving(health()) as port:
            client = await port.client()
            fields = b"Connection: upgrade\r\nUpgrade: " + protocol + b"\r\n"
            assert (await client.ask(asked(fields=fields), b"more")).body == b"ok\n"
            assert await client.ended() == b""

    play(main)


def test_who_leaves_in_the_middle_leaves_nothing_behind() -> None:
    async def main() -> None:
        page = Page()
        page.go_on.clear()
        async with serving(page) as port:
            for sent in (b"", b"GET", ASK, ASK + b"GET", CHUNKED + b"1"):
                for leave in (RawClient.leave, RawClient.reset):
                    client = await port.client()
                    client.send(sent)
                    await until(port.connections)
                    leave(client)
                    await until(lambda: not port.connections())
            page.go_on.set()
            await until(lambda: not port._state.tasks)

    play(main)


@pytest.mark.parametrize(("soft", "most"), [(64, 32), (1024, 128), (-1, 128), (1, 1)])
def test_connections_take_at_most_half_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, most: int
) -> None:
    assert resource.RLIM_INFINITY == -1
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, -1))
    assert Bounds.of_process().connections == most
