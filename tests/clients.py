"""A raw HTTP client: it sends the bytes that it is told to, and shows the bytes that come back."""

import asyncio
import socket
import struct
from typing import NamedTuple

Pair = tuple[bytes, bytes]


class Answer(NamedTuple):
    """An answer as it came. `clean` is false if it broke off, `reset` if that was by a reset."""

    line: bytes
    headers: list[Pair]
    body: bytes
    pieces: list[bytes]
    clean: bool
    reset: bool = False

    @property
    def status(self) -> int:
        return int(self.line.split(b" ")[1])

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]


class RawClient:
    """One connection to a port of 127.0.0.1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, receive_bytes: int | None = None) -> "RawClient":
        """`receive_bytes`: of the kernel's buffer for what comes in."""
        sock = socket.socket()
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        return cls(*await asyncio.open_connection(sock=sock, limit=1 << 16))

    def send(self, *parts: bytes) -> None:
        """One write."""
        self.writer.write(b"".join(parts))

    async def head(self) -> Answer:
        """The next answer without its body, or an interim one."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *fields = raw[:-4].split(b"\r\n")
        pairs = [(name, value.strip()) for name, _, value in (f.partition(b":") for f in fields)]
        return Answer(line, pairs, b"", [], True)

    async def answer(self, method: bytes = b"GET") -> Answer:
        """The next answer, whole or as far as it comes."""
        head = await self.head()
        pieces: list[bytes] = []
        clean, reset = True, False
        try:
            if method == b"HEAD" or head.status < 200 or head.status in (204, 304):
                pass
            elif head.values(b"transfer-encoding") == [b"chunked"]:
                while data := await self.chunk():
                    pieces.append(data)
            elif length := head.values(b"content-length"):
                pieces.append(await self.reader.readexactly(int(length[0])))
            else:
                while data := await self.reader.read(1 << 16):
                    pieces.append(data)
        except asyncio.IncompleteReadError as problem:
            pieces.append(problem.partial)
            clean = False
        except ConnectionError:
            clean, reset = False, True
        return head._replace(body=b"".join(pieces), pieces=pieces, clean=clean, reset=reset)

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        line = await self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise asyncio.IncompleteReadError(line, None)
        size = int(line, 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def ask(self, *parts: bytes) -> Answer:
        """Send a request, return its answer."""
        self.send(*parts)
        return await self.answer(parts[0].split(b" ")[0])

    async def ended(self) -> bytes:
        """Wait until the other side has closed; what it still said."""
        try:
            return await self.reader.read(-1)
        except ConnectionError:
            return b""

    async def close(self) -> None:
        """Let go of the socket, at the end of a test."""
        self.writer.transport.abort()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)

    def leave(self) -> None:
        """Close without another word."""
        self.writer.close()

    def reset(self) -> None:
        """Close with a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def post(path: bytes, body: bytes, *fields: bytes) -> bytes:
    """A request with a JSON body."""
    lines = [
        b"POST %b HTTP/1.1" % path,
        b"Host: proxy.test",
        b"Content-Type: application/json",
        *fields,
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(path: bytes, *fields: bytes) -> bytes:
    """A request without a body."""
    return b"\r\n".join([b"GET %b HTTP/1.1" % path, b"Host: proxy.test", *fields]) + b"\r\n\r\n"
