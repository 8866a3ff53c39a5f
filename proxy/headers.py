"""Which header pairs cross the proxy, each way. Pairs keep their order, case and repetitions.

Source: RFC 9110 section 7.6.1 (hop-by-hop fields and those that Connection names).
"""

from collections.abc import Iterable, KeysView

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
_NOT_SENT_ON = _HOP_BY_HOP | {b"expect", b"content-length"}


def _dropped(pairs: Iterable[Pair]) -> frozenset[bytes]:
    named = [v for n, v in pairs if len(n) == 10 and n.lower() == b"connection"]
    if not named:
        return _HOP_BY_HOP
    return _HOP_BY_HOP | {part.strip().lower() for value in named for part in value.split(b",")}


class Fields:
    """The first value of each header, by its name in lower case."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._values: dict[bytes, bytes] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), value)

    def names(self) -> KeysView[bytes]:
        """All names, in lower case."""
        return self._values.keys()

    def __getitem__(self, name: bytes) -> str:
        """The value without the blanks around it; an empty one if there is none."""
        value = self._values.get(name)
        return value.decode("latin-1").strip() if value else ""


def to_upstream(pairs: list[Pair], host: bytes | None) -> list[Pair]:
    """The client's header pairs as the upstream gets them, without the body's framing.

    Content-Length is left out like Transfer-Encoding: who sends the body says how long it is.
    `Expect` has been answered here.

    Args:
        host: what `Host` becomes; None keeps the client's.
    """
    dropped = _NOT_SENT_ON | _dropped(pairs)
    kept = []
    seen_host = False
    for pair in pairs:
        name = pair[0].lower()
        if name == b"host":
            if not seen_host:
                kept.append(pair if host is None else (pair[0], host))
            seen_host = True
        elif name not in dropped:
            kept.append(pair)
    if not seen_host and host is not None:
        kept.insert(0, (b"Host", host))
    return kept


def to_client(pairs: list[Pair], event_stream: bool) -> list[Pair]:
    """The upstream's header pairs as the client gets them.

    Nothing is added, but what tells nginx and its like not to buffer an event stream.
    """
    dropped = _dropped(pairs)
    kept = [pair for pair in pairs if pair[0].lower() not in dropped]
    if event_stream and not any(n.lower() == b"x-accel-buffering" for n, _ in kept):
        kept.append((b"X-Accel-Buffering", b"no"))
    return kept


def identity_only(pairs: list[Pair]) -> list[Pair]:
    """The same pairs with an Accept-Encoding that asks for a plain answer."""
    kept = [pair for pair in pairs if pair[0].lower() != b"accept-encoding"]
    return [*kept, (b"Accept-Encoding", b"identity")]
