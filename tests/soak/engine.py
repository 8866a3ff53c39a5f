"""The soak's upstream: it answers as the mood in the query says."""

import asyncio
import socket
import struct
from urllib.parse import unquote

from .moods import MOODS


async def listen() -> tuple[asyncio.Server, int]:
    """It listens on a free port of 127.0.0.1."""
    server = await asyncio.start_server(_visit, "127.0.0.1", 0)
    return server, int(server.sockets[0].getsockname()[1])


async def _visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await _answer(reader, writer):
            pass
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One exchange; False when the connection is of no more use."""
    head = await reader.readuntil(b"\r\n\r\n")
    await _body(reader, head.lower())
    query = head.split(b" ", 2)[1].partition(b"?mood=")[2]
    if not query:  # a probe
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return True
    mood = MOODS[unquote(query.decode("ascii"))]
    for piece in mood.said:
        writer.write(piece)
        await asyncio.sleep(0)
    await writer.drain()
    if mood.end == "wait":
        await reader.read()
    elif mood.end == "reset":
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    return mood.end == "keep"


async def _body(reader: asyncio.StreamReader, head: bytes) -> None:
    if b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    elif b"content-length: " in head:
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
