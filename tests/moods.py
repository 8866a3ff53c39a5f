"""Upstreams that behave in every way, and what is to become of an exchange with each of them."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from upstreams import Heard, Visit, chunk, sized

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
WHOLE, CUT, FAILED = "whole", "cut", "failed"


class Mood(NamedTuple):
    """How an upstream answers, and what the client and the log see of it.

    Args:
        answer: says the answer with this body; the connection ends behind it if it gives False.
        seen: the answer arrives whole, is cut off, or is the proxy's own failure.
    """

    answer: Callable[[Visit, bytes], Awaitable[bool]]
    seen: str = WHOLE
    outcome: str = "completed"
    status: int = 200
    bodiless: bool = False


def saying(
    *parts: bytes, keep: bool = False, reset: bool = False
) -> Callable[..., Awaitable[bool]]:
    """Parts with `%b` hold the body, one after the other in a read of its own."""

    async def answer(visit: Visit, body: bytes) -> bool:
        for part in parts:
            visit.say(part.replace(b"%b", body))
            await visit.writer.drain()
        if reset:
            visit.reset()
        return keep

    return answer


async def in_chunks(visit: Visit, body: bytes) -> bool:
    visit.say(CHUNKED)
    for start in range(0, len(body), 5000):
        visit.say(chunk(body[start : start + 5000]))
        await visit.writer.drain()
    visit.say(chunk(b""))
    return True


async def of_known_size(visit: Visit, body: bytes) -> bool:
    visit.say(sized(body))
    return True


async def trickling(visit: Visit, body: bytes) -> bool:
    raw = CHUNKED + chunk(body[:30]) + chunk(body[30:]) + chunk(b"")
    for at in range(100):
        visit.say(raw[at : at + 1])
        await visit.writer.drain()
    visit.say(raw[100:])
    return True


async def half_closing(visit: Visit, body: bytes) -> bool:
    visit.say(b"HTTP/1.1 200 OK\r\n\r\n", body)
    visit.writer.write_eof()
    await visit.gone()
    return False


async def closing_late(visit: Visit, body: bytes) -> bool:
    """The next request on this connection meets its end."""
    visit.say(sized(body))
    await visit.writer.drain()
    await visit.reader.read(1)
    return False


async def surplus(visit: Visit, body: bytes) -> bool:
    visit.say(sized(body), b"more than was asked for")
    return False


async def cut_short(visit: Visit, body: bytes) -> bool:
    visit.say(sized(body)[:-100])
    await visit.writer.drain()
    return False


MOODS = {
    "sized": Mood(of_known_size),
    "chunked": Mood(in_chunks),
    "trickling": Mood(trickling),
    "closing": Mood(saying(b"HTTP/1.1 200 OK\r\n\r\n%b")),
    "half-closing": Mood(half_closing),
    "closing late": Mood(closing_late),
    "asking to close": Mood(saying(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%b")),
    "old": Mood(saying(b"HTTP/1.0 200 OK\r\n\r\n%b")),
    "surplus": Mood(surplus),
    "hinting": Mood(saying(HINTS, HINTS + CHUNKED, chunk(b"x"), chunk(b""), keep=True)),
    "without content": Mood(
        saying(b"HTTP/1.1 204 No Content\r\n\r\n", keep=True), status=204, bodiless=True
    ),
    "not modified": Mood(
        saying(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", keep=True),
        status=304,
        bodiless=True,
    ),
    "rejecting": Mood(
        saying(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", keep=True),
        outcome="rejected",
        status=503,
        bodiless=True,
    ),
    "reset when whole": Mood(saying(CHUNKED, chunk(b"x") + chunk(b""), reset=True)),
    "cut": Mood(cut_short, CUT, "truncated"),
    "reset in a chunk": Mood(saying(CHUNKED + b"ff\r\nx", reset=True), CUT, "truncated"),
    "dead in a chunk": Mood(saying(CHUNKED + b"fffff\r\nx"), CUT, "truncated"),
    "dead in a size": Mood(saying(CHUNKED + chunk(b"x") + b"1"), CUT, "truncated"),
    "dead between chunks": Mood(saying(CHUNKED, chunk(b"x")), CUT, "truncated"),
    "dead in the last chunk": Mood(saying(CHUNKED, chunk(b"x") + b"0\r\n"), CUT, "truncated"),
    "dead behind its head": Mood(saying(CHUNKED), CUT, "truncated"),
    "garbage in a size": Mood(saying(CHUNKED, chunk(b"x") + b"xyz\r\n"), CUT, "truncated"),
    "silent death": Mood(saying(), FAILED, "unreachable", 502),
    "silent reset": Mood(saying(reset=True), FAILED, "unreachable", 502),
    "dead in its head": Mood(saying(b"HTTP/1.1 200 OK\r\nA"), FAILED, "unreachable", 502),
    "dead behind hints": Mood(saying(HINTS), FAILED, "unreachable", 502),
    "garbage": Mood(saying(b"\x00 no HTTP\r\n"), FAILED, "unreachable", 502),
    "two lengths": Mood(
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        FAILED,
        "unreachable",
        502,
    ),
    "switching unasked": Mood(saying(SWITCH), FAILED, "unreachable", 502),
}


def body_of(name: bytes) -> bytes:
    return (name + b";") * 3000


async def moody(visit: Visit) -> None:
    """Behaves as the target says, with a body that names the request."""
    moods = list(MOODS.values())
    while True:
        heard = await visit.hear()
        name = _name(heard)
        if heard.target == b"/echo":
            await _echo(visit)
            return
        if heard.line.startswith(b"HEAD"):
            visit.say(sized(body_of(name)).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        elif not await moods[int(heard.target[1:])].answer(visit, body_of(name)):
            await _flushed(visit)
            return


def _name(heard: Heard) -> bytes:
    return heard.values(b"x-request-id")[0]


async def _echo(visit: Visit) -> None:
    visit.say(SWITCH)
    while data := await visit.reader.read(1 << 16):
        visit.say(data)


async def _flushed(visit: Visit) -> None:
    if not visit.writer.is_closing():
        await visit.writer.drain()
