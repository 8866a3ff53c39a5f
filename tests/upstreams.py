"""A scripted inference server on a real socket: each connection runs a script of the test."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ssl import SSLContext
from types import TracebackType
from typing import NamedTuple

Pair = tuple[bytes, bytes]


class Heard(NamedTuple):
    """A request as it arrived; `trailers` and `pieces` of a chunked body."""

    line: bytes
    headers: list[Pair]
    body: bytes
    pieces: list[bytes]
    trailers: list[Pair]

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]


class Visit:
    """One connection to the upstream, number `number` from 1 on."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def head(self) -> Heard:
        """The next request without its body."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *fields = raw[:-4].split(b"\r\n")
        return Heard(line, [_pair(field) for field in fields], b"", [], [])

    async def hear(self) -> Heard:
        """The next request. Raises: asyncio.IncompleteReadError when there is none."""
        heard = await self.head()
        if length := heard.values(b"content-length"):
            return heard._replace(body=await self.reader.readexactly(int(length[0])))
        if heard.values(b"transfer-encoding") == [b"chunked"]:
            pieces = [piece async for piece in self.chunks()]
            trailers = [_pair(line) async for line in self._lines()]
            return heard._replace(body=b"".join(pieces), pieces=pieces, trailers=trailers)
        return heard

    async def chunks(self) -> AsyncIterator[bytes]:
        """Chunks of a body, without its trailer section."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]

    async def _lines(self) -> AsyncIterator[bytes]:
        while (line := (await self.reader.readuntil(b"\r\n"))[:-2]) != b"":
            yield line

    def say(self, *parts: bytes) -> None:
        """One write. Raises: ConnectionResetError when the other side has closed."""
        if self.writer.is_closing():
            raise ConnectionResetError
        self.writer.write(b"".join(parts))

    async def gone(self) -> bytes:
        """Wait until the other side has closed; what it still said."""
        try:
            return await self.reader.read(-1)
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Close in order, after what was said."""
        self.writer.close()

    def reset(self) -> None:
        """Close with a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def _pair(field: bytes) -> Pair:
    name, _, value = field.partition(b":")
    return name, value.strip(b" \t")


Script = Callable[[Visit], Awaitable[None]]


class ScriptedUpstream:
    """Listens on a free port of `host` while entered, and runs `script` for each connection.

    A script ends its connection by returning. What it raises fails the test at the exit, but for
    the ends of connections.
    """

    def __init__(
        self,
        script: Script,
        tls: SSLContext | None = None,
        limit: int = 1 << 16,
        host: str = "127.0.0.1",
    ) -> None:
        self._script = script
        self._host = host
        self._tls = tls
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()
        self._problems: list[BaseException] = []
        self.visits: list[Visit] = []
        self.heard: list[Heard] = []  # by the scripts made here

    async def __aenter__(self) -> "ScriptedUpstream":
        self._server = await asyncio.start_server(
            self._visit, self._host, 0, ssl=self._tls, limit=self._limit
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for visit in self.visits:
            visit.writer.transport.abort()
        await asyncio.gather(
            *(visit.writer.wait_closed() for visit in self.visits), return_exceptions=True
        )
        if self._problems:  # what else went wrong may only follow from it
            raise self._problems[0]

    def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(len(self.visits) + 1, reader, writer)
        self.visits.append(visit)
        task = asyncio.get_running_loop().create_task(self._run(visit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, visit: Visit) -> None:
        try:
            await self._script(visit)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as problem:
            self._problems.append(problem)
        finally:
            visit.writer.close()


class Silent:
    """A script that says these bytes and then waits for the other side to close."""

    def __init__(self, *said: bytes) -> None:
        self._said = said
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()

    async def __call__(self, visit: Visit) -> None:
        await visit.hear()
        visit.say(*self._said)
        self.asked.set()
        await visit.gone()
        self.closed.set()


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[ScriptedUpstream]:
    """An upstream that gives these answers in turn, whoever asks, and the last one for ever."""
    left = list(answers)

    async def script(visit: Visit) -> None:
        while True:
            upstream.heard.append(await visit.hear())
            visit.say(left.pop(0) if len(left) > 1 else left[0])
            await visit.writer.drain()

    async with ScriptedUpstream(script) as upstream:
        yield upstream


@asynccontextmanager
async def knowing(answers: Mapping[str, bytes]) -> AsyncIterator[ScriptedUpstream]:
    """An upstream that has an answer to some paths, and 404 for all others."""

    async def script(visit: Visit) -> None:
        while True:
            heard = await visit.hear()
            upstream.heard.append(heard)
            visit.say(answers.get(heard.target.decode(), sized(b"{}", status=b"404 Not Found")))
            await visit.writer.drain()

    async with ScriptedUpstream(script) as upstream:
        yield upstream


def sized(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer with a Content-Length."""
    lines = [b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunk(data: bytes) -> bytes:
    """Data in the chunked coding; of empty data the last chunk and the end."""
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
