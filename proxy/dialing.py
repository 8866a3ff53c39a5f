"""Connecting to an address, or to a host of several: one that is dead costs a moment, not the
connection.

Source: RFC 8305 ("Happy Eyeballs"), sections 4 and 5: addresses of both families in turn, the next
one when the last has failed or has taken a quarter of a second.
"""

import asyncio
import errno
import ipaddress
import os
import select
import socket
from itertools import zip_longest
from typing import Any

_NEXT_SECONDS = 0.25

Address = tuple[int, Any]  # family and what `connect` takes


def literal(host: str, port: int) -> Address | None:
    """The address that a host's name is; None for what has to be resolved."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    if "%" in host:  # whose number only the resolver knows
        return None
    return (socket.AF_INET if version == 4 else socket.AF_INET6), (host, port)


def knock(address: Address) -> tuple[socket.socket, bool]:
    """A socket that connects, and whether it is connected already, as it is on this machine.

    Raises: OSError.
    """
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        said = sock.connect_ex(where)
        if said == errno.EINPROGRESS and _is_decided(sock):
            said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if said not in (0, errno.EINPROGRESS):
            raise OSError(said, os.strerror(said))
    except BaseException:
        sock.close()
        raise
    return sock, said == 0


def _is_decided(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(0))


async def connected(sock: socket.socket) -> None:
    """Wait until it is. Raises: OSError."""
    loop = asyncio.get_running_loop()
    writable: asyncio.Future[None] = loop.create_future()

    def there() -> None:
        if not writable.done():
            writable.set_result(None)

    loop.add_writer(sock, there)
    try:
        await writable
    finally:
        loop.remove_writer(sock)
    if problem := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(problem, os.strerror(problem))


async def dial(host: str, port: int) -> socket.socket:
    """A connected socket. The caller limits the time that this may take.

    Raises: OSError, of the first address that failed; UnicodeError for what is no name.
    """
    loop = asyncio.get_running_loop()
    waiting = in_turn(await _resolve(host, port))
    running: set[asyncio.Task[socket.socket]] = set()
    problem: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(loop.create_task(_attempt(*waiting.pop(0))))
            limit = _NEXT_SECONDS if waiting else None
            done, _ = await asyncio.wait(
                running, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                running.discard(attempt)
                try:
                    return attempt.result()
                except OSError as failure:
                    problem = problem or failure
    finally:
        await _give_up(running)
    raise problem or OSError("no address")


async def _resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def in_turn(addresses: list[Address]) -> list[Address]:
    """The same addresses, those of the first one's family and the others by turns."""
    first = [one for one in addresses if one[0] == addresses[0][0]]
    rest = [one for one in addresses if one[0] != addresses[0][0]]
    pairs = zip_longest(first, rest)
    return [one for pair in pairs for one in pair if one is not None]


async def _attempt(family: int, address: Any) -> socket.socket:
    sock, there = knock((family, address))
    try:
        if not there:
            await connected(sock)
    except BaseException:
        sock.close()
        raise
    return sock


async def _give_up(running: set[asyncio.Task[socket.socket]]) -> None:
    """Close what comes too late."""
    for attempt in running:
        attempt.cancel()
    for late in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(late, socket.socket):
            late.close()
