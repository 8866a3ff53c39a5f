"""The soak's clients: each asks for one thing after the other and behaves as its mood says."""

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

from .moods import FAULTS, GOOD, MOODS, RARE, Mood, chunk

BODY = b'{"model":"m","messages":[{"role":"user","content":"say something"}]'
RARELY = 0.003  # of the faults


class Mistold(AssertionError):
    """The client got something else than its mood wants."""


def moods(seed: int) -> Iterator[str]:
    """Names of moods without end, a fault in every third place."""
    chance = random.Random(seed)
    good, faults, rare = list(GOOD), list(FAULTS), list(RARE)
    while True:
        yield from (chance.choice(good), chance.choice(good))
        yield chance.choice(rare if chance.random() < RARELY else faults)


class Guest:
    """One client. `sent` counts by mood what it asked for."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.sent: Counter[str] = Counter()

    async def ask(self, number: int, name: str) -> None:
        """One exchange. Raises Mistold."""
        mood = MOODS[name]
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        self.sent[name] += 1
        for piece in _request(number, name, mood):
            writer.write(piece)
            await asyncio.sleep(0)
        if mood.way in ("abandons", "half"):
            self._go()
            return
        status, keeps = await _head(reader)
        expected = {code for _, code in mood.told}
        if status not in expected:
            raise Mistold(f"{name}: status {status}")
        if mood.way in ("leaves", "resets"):
            await reader.readline()
            self._go(reset=mood.way == "resets")
        elif not await _rest(reader, keeps) or not keeps.kept:
            self._go()

    def _go(self, reset: bool = False) -> None:
        assert self._streams is not None
        _, writer = self._streams
        self._streams = None
        if reset:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()

    def leave(self) -> None:
        """It asks for nothing more."""
        if self._streams is not None:
            self._go()


def _request(number: int, name: str, mood: Mood) -> list[bytes]:
    """A request in pieces; with `half` not all of it."""
    target = b"%b?mood=%b" % (mood.path, quote(name).encode())
    head = b"%b %b HTTP/1.1\r\nHost: soak\r\nX-Request-Id: %d\r\n" % (
        b"POST" if mood.body else b"GET",
        target,
        number,
    )
    if not mood.body:
        return [head + b"\r\n"]
    body = BODY + (b',"stream":true}' if mood.stream else b"}")
    head += b"Content-Type: application/json\r\n"
    if mood.way == "uploads":
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        return [head, chunk(body[:20]), chunk(body[20:]), chunk(b"")]
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    return [head, body[:20]] if mood.way == "half" else [head + body]


class Framing:
    """How an answer's body ends."""

    def __init__(self, head: bytes) -> None:
        fields = head.lower()
        self.chunked = b"transfer-encoding: chunked\r\n" in fields
        length = fields.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        self.length = int(length) if length else None
        self.kept = b"connection: close\r\n" not in fields


async def _head(reader: asyncio.StreamReader) -> tuple[int, Framing]:
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), Framing(head)


async def _rest(reader: asyncio.StreamReader, framing: Framing) -> bool:
    """Read the body; whether it came to its end."""
    try:
        if framing.length is not None:
            await reader.readexactly(framing.length)
        while framing.chunked and (size := int(await reader.readline() or b"x", 16)):
            await reader.readexactly(size + 2)
        if framing.chunked:
            await reader.readline()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return False
    return True
