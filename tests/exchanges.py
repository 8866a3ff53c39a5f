"""Exchanges for tests: opened, answered, and what their records may hold."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from playing import ASK, EVENTS, T0

from proxy.exchange import Exchange
from proxy.formats import interface
from proxy.headers import Fields, Pair
from proxy.origin import Origin
from proxy.outcome import Outcome
from proxy.tokens import Learned

WALL = 1_700_000_000.5
OURS = "f" * 32


def opened(
    headers: Iterable[Pair] = (),
    path: str = "/v1/chat/completions",
    asked: Mapping[str, Any] = ASK,
    number: int = 1,
    upstream: str = "up",
    learned: Learned | None = None,
    origin: Origin = Origin(),  # noqa: B008  # immutable
) -> Exchange:
    """A request whose last byte arrived at `T0`."""
    face = interface(path)
    call = face.call(dict(asked), path)
    learned = learned or Learned()
    fields = Fields(headers)
    return Exchange(number, upstream, fields, OURS, WALL, call, face, learned, T0, 2.0, origin)


def headed(exchange: Exchange, kind: str = EVENTS, status: int = 200, at: float = 10) -> None:
    """The head of its answer arrives so many milliseconds after the request."""
    exchange.code = status
    exchange.answered = 200 <= status < 300
    exchange.t_end = T0 + at / 1000
    exchange.meter.head(status, kind, "", exchange.t_end)


def arrived(exchange: Exchange, *reads: tuple[float, bytes]) -> None:
    """Bytes of it arrive, milliseconds after the request."""
    for at, data in reads:
        exchange.t_end = T0 + at / 1000
        exchange.meter.read(data, exchange.t_end)


def ended(exchange: Exchange, outcome: Outcome = Outcome.COMPLETED) -> dict[str, Any]:
    """Its end record, after a clean end of the body if it completed."""
    exchange.outcome = outcome
    if outcome is Outcome.COMPLETED:
        exchange.meter.end(exchange.t_end)
    return dict(exchange.end())


def misfits(record: Mapping[str, Any], kind: type) -> list[str]:
    """Keys of a record that its kind does not have, or with values of another type."""
    assert is_typeddict(kind)
    hints = get_type_hints(kind)
    return [key for key, value in record.items() if key not in hints or not _is(value, hints[key])]


def _is(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(_is(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _is(key, inner[0]) and _is(item, inner[1]) for key, item in value.items()
        )
    return type(value) in ((int, float) if hint is float else (hint,))
