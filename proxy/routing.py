"""Which upstream a request goes to, and what it is asked for there."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import httpx

from proxy import errors
from proxy.address import Upstream
from proxy.errors import Failure


class Way(NamedTuple):
    """An upstream and how it is reached."""

    upstream: Upstream
    transport: httpx.AsyncBaseTransport


_ORIGIN = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


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
            return way, way.upstream.base.encode("ascii") + rest
    return errors.NO_ROUTE
