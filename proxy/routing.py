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

    Servers differ in what they undo first: escapes, backslashes, doubled slashes, parameters.
    """
    if b".." not in path and b"%2" not in path:
        return False
    depth = 0
    for segment in unquote_to_bytes(path).replace(b"\\", b"/").split(b"/"):
        name = segment.partition(b";")[0]
        if name == b"..":
            depth -= 1
            if depth < 0:
                return True
        elif name not in (b"", b"."):
            depth += 1
    return False
