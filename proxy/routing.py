"""Which upstream a request goes to, and what it is asked for there."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httpx

from proxy import errors
from proxy.address import Upstream
from proxy.errors import Failure


class Way(NamedTuple):
    """An upstream and how it is reached."""

    upstream: Upstream
    transport: httpx.AsyncBaseTransport


_MOST_ESCAPES = 3  # one in the other
# Of a path that has to be looked at: no server has longer ones, and to look takes time.
_MOST_PATH_BYTES = 8 << 10
_MOST_SEGMENTS = 500
_SEPARATOR = re.compile(rb"[/\\]")
_OVERLONG = ((b"\xc0\xae", b"."), (b"\xc0\xaf", b"/"), (b"\xc1\x9c", b"\\"))
_UNSEEN = re.compile(rb"[\x00-\x20\x7f]+")

_ORIGIN = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


def authority(target: bytes) -> bytes:
    """The host that a target names, which goes before the header (RFC 9112, 3.2.2); or nothing."""
    origin = _ORIGIN.match(target)
    return origin[1] if origin else b""


def route(ways: Sequence[Way], target: bytes) -> tuple[Way, bytes] | Failure:
    """The first of `ways` that takes a request target, and the target as that upstream gets it.

    The upstream's prefix is stripped, its base put before; not a byte of the rest is touched.
    """
    if origin := _ORIGIN.match(target):
        target = target[origin.end() :]
        target = target if target.startswith(b"/") else b"/" + target
    if not target.startswith(b"/"):
        return errors.BAD_TARGET
    path = target.partition(b"?")[0]
    for way in ways:
        prefix = way.upstream.prefix.encode("ascii").rstrip(b"/")
        if path == prefix or path.startswith(prefix + b"/"):
            rest = target[len(prefix) :]
            rest = rest if rest.startswith(b"/") else b"/" + rest
            if (prefix or way.upstream.base) and _climbs(rest.partition(b"?")[0]):
                return errors.BAD_TARGET
            return way, way.upstream.base.encode("ascii") + rest
    return errors.NO_ROUTE


def _climbs(path: bytes) -> bool:
    """Whether a server may take it for a path beside the prefix or base that it stands below.

    Servers differ in what they undo, how often and in which order: escapes, backslashes, doubled
    slashes, parameters, overlong UTF-8, what cannot be seen. What separates for some of them only
    (`%2f`, a backslash) may lead up, but never down.
    """
    if b".." not in path and b"%" not in path:
        return False
    if len(path) > _MOST_PATH_BYTES or path.count(b"/") > _MOST_SEGMENTS:
        return True
    depth = 0
    for segment in path.split(b"/"):
        names = [name.partition(b";")[0] for name in _SEPARATOR.split(_undone(segment))]
        depth -= names.count(b"..")
        if depth < 0:
            return True
        depth += all(name not in (b"", b".", b"..") for name in names)
    return False


def _undone(segment: bytes) -> bytes:
    """Without what hides a dot or a slash."""
    for _ in range(_MOST_ESCAPES):
        segment = unquote_to_bytes(segment)
    for overlong, plain in _OVERLONG:
        segment = segment.replace(overlong, plain)
    return _UNSEEN.sub(b"", segment)
