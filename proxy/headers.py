"""Which header pairs cross the proxy, each way. Pairs keep their order, case and repetitions.

Source: RFC 9110 section 7.6.1 (hop-by-hop fields and those that Connection names).
"""

from collections.abc import Iterable

Pair = tuple[bytes, bytes]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


def _dropped(pairs: Iterable[Pair]) -> frozenset[bytes] | set[bytes]:
    named = [value for name, value in pairs if name.lower() == b"connection"]
    if not named:
        return _HOP_BY_HOP
    return _HOP_BY_HOP | {part.strip().lower() for value in named for part in value.split(b",")}


def value_of(pairs: Iterable[Pair], name: bytes) -> str:
    """The value of the first header called `name` (lower case); an empty one if there is none."""
    return next((v.decode("latin-1").strip() for n, v in pairs if n.lower() == name), "")


def to_upstream(pairs: list[Pair], host: bytes | None) -> list[Pair]:
    """The client's header pairs as the upstream gets them, without the body's framing.

    Content-Length is left out like Transfer-Encoding: who sends the body says how long it is.
    `Expect` has been answered here.

    Args:
        host: what `Host` becomes; None keeps the client's.
    """
    dropped = _dropped(pairs)
    kept = []
    seen_host = False
    for name, value in pairs:
        low = name.lower()
        if low == b"host":
            if seen_host:
                continue
            seen_host = True
            kept.append((name, value if host is None else host))
        elif low not in dropped and low != b"expect" and low != b"content-length":
            kept.append((name, value))
    if not seen_host and host is not None:
        kept.insert(0, (b"Host", host))
    return kept


def to_client(pairs: list[Pair], event_stream: bool) -> list[Pair]:
    """The upstream's header pairs as the client gets them.

    Nothing is added, but what tells nginx and its like not to buffer an event stream.
    """
    dropped = _dropped(pairs)
    kept = [(n, v) for n, v in pairs if n.lower() not in dropped]
    if event_stream and not any(n.lower() == b"x-accel-buffering" for n, _ in kept):
        kept.append((b"X-Accel-Buffering", b"no"))
    return kept


def identity_only(pairs: list[Pair]) -> list[Pair]:
    """The same pairs with an Accept-Encoding that asks for a plain answer."""
    kept = [(n, v) for n, v in pairs if n.lower() != b"accept-encoding"]
    return [*kept, (b"Accept-Encoding", b"identity")]
