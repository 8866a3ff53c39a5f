"""Exchanges in flight, over all workers, and how many streams ran beside each of them.

Pure: times come in with the records, and with the call.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from proxy.channel import Begin, End, Output
from proxy.concurrency import Concurrency
from proxy.labels import UNKNOWN, Models, clean

# Chunk gaps of a stream that are looked at: 8 bytes each.
_MOST_GAPS = 1 << 16
# Records of several workers come in so much out of order, and more.
_DISORDER_SECONDS = 2.0
_MANY_GROUPS = 256


def _none() -> "array[float]":
    return array("d")


@dataclass(slots=True, eq=False)
class Exchange:
    """One exchange in flight; `label` is `unknown` until a 2xx has answered."""

    connection: int
    id: int
    upstream: str
    api: str
    stream: bool
    asked: str  # model, clean; empty if none was named
    at: float  # t0
    begun: Begin
    trace: str  # for exemplars
    answered: str | None = None  # model as the records of a 2xx name it, raw
    label: str = UNKNOWN
    first_at: float | None = None
    last_at: float | None = None
    ttft_seconds: float | None = None
    ttfv_seconds: float | None = None
    tokens: int = 0  # told of so far
    characters: int = 0
    held: bool = False  # the client takes no bytes
    gaps: "array[float]" = field(default_factory=_none, repr=False)  # the first ones, seconds
    code: int | None = None  # the status that the client saw
    group: "_Group | None" = field(default=None, repr=False)

    def take(self, record: Output) -> None:
        """Add what this record tells."""
        self.tokens += record.get("tokens") or 0
        self.characters += record.get("characters") or 0
        if len(self.gaps) < _MOST_GAPS:
            self.gaps.extend(record.get("gaps") or ())
        self.last_at = record.get("last_at") or self.last_at
        self.first_at = record.get("first_at", self.first_at)
        self.held = record.get("held", self.held)
        self.code = record.get("code", self.code)
        self.ttft_seconds = record.get("ttft_seconds", self.ttft_seconds)
        self.ttfv_seconds = record.get("ttfv_seconds", self.ttfv_seconds)

    @property
    def phase(self) -> str:
        """`waiting` for its first output, or `decoding`."""
        return "waiting" if self.last_at is None else "decoding"


class Follower:
    """Is told of exchanges as the keeper learns of them; it takes what it needs."""

    def begin(self, exchange: Exchange) -> None:
        """It is in flight."""

    def output(self, exchange: Exchange, record: Output) -> None:
        """A 2xx moved on; the exchange is as it was before this record."""

    def end(self, exchange: Exchange | None, label: str, record: End) -> None:
        """It is over, as above; `label` is its model's. None: its begin was never told."""

    def recount(self, in_flight: Iterable[Exchange]) -> None:
        """Only these are in flight: ends of others were lost."""

    def collect(self) -> None:
        """Somebody looks at the metrics."""

    def close(self) -> None:
        """Nothing more is to come."""


class _Group:
    """Streams of one upstream and model."""

    __slots__ = ("history", "members")

    def __init__(self) -> None:
        self.history = Concurrency()
        self.members: dict[Exchange, None] = {}  # oldest first, about

    def join(self, exchange: Exchange) -> None:
        self.members[exchange] = None
        self.history.change(exchange.at, 1)
        oldest = next(iter(self.members))
        self.history.trim(oldest.at - _DISORDER_SECONDS)

    def leave(self, exchange: Exchange, at: float) -> None:
        del self.members[exchange]
        self.history.change(at, -1)


class Beside(NamedTuple):
    """Streams of the same upstream and model in flight, the exchange's own included."""

    at_arrival: int
    decoding: float | None  # mean over its decode phase; None if it had none


class Live:
    """The exchanges in flight, by connection of a worker and id."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._tables: dict[int, dict[int, Exchange]] = {}
        self._groups: dict[tuple[str, str], _Group] = {}
        self._sweep_at = _MANY_GROUPS

    def __iter__(self) -> Iterator[Exchange]:
        return (exchange for table in self._tables.values() for exchange in table.values())

    def begin(self, connection: int, record: Begin) -> Exchange | None:
        """A new exchange; None if it is known, as after a snapshot."""
        table = self._tables.setdefault(connection, {})
        if record["id"] in table:
            return None
        exchange = Exchange(
            connection,
            record["id"],
            record["upstream"],
            record["api"],
            record["stream"],
            clean(record.get("model") or ""),
            record["at"],
            record,
            record.get("trace") or "",
        )
        table[exchange.id] = exchange
        if exchange.stream:
            self._join(exchange, self._models.name(exchange.upstream, exchange.asked))
        return exchange

    def find(self, connection: int, id: int) -> Exchange | None:
        """The exchange in flight, if it is known."""
        table = self._tables.get(connection)
        return table.get(id) if table else None

    def answer(self, exchange: Exchange, model: str) -> None:
        """A 2xx answered, and this is the model's name (raw, can be empty)."""
        exchange.answered = model
        named = clean(model)
        exchange.label = self._models.learn(exchange.upstream, exchange.asked, named)
        own = self._models.name(exchange.upstream, named)
        if exchange.group is not None:
            self._move(exchange, own)
        if own != exchange.asked:
            self._move_waiting(exchange.upstream, exchange.asked, own)

    def streams(self, exchange: Exchange) -> None:
        """It turns out to be a stream, though none was asked for."""
        if not exchange.stream:
            exchange.stream = True
            self._join(exchange, clean(exchange.answered or "") or exchange.asked)

    def end(self, exchange: Exchange, record: End) -> Beside | None:
        """It has ended; what ran beside it, if it was a stream."""
        self._drop(exchange, record["at"])
        if exchange.group is None:
            return None
        history = exchange.group.history
        first, last = record.get("first_at"), record.get("last_at")
        decoding = None if first is None or last is None else history.mean(first, last)
        return Beside(max(1, round(history.level(exchange.at))), decoding)

    def _drop(self, exchange: Exchange, at: float) -> None:
        del self._tables[exchange.connection][exchange.id]
        if exchange.group is not None:
            exchange.group.leave(exchange, at)

    def lost(self, connection: int, now: float) -> list[End]:
        """A worker is gone: the ends of its exchanges, as far as they are known. All still here."""
        return [_aborted(exchange, now) for exchange in self._tables.get(connection, {}).values()]

    def forget(self, connection: int, but: Iterable[int], now: float) -> None:
        """Only `but` (ids) are in flight: the ends of others were dropped on the way."""
        table = self._tables.get(connection, {})
        for id in table.keys() - set(but):
            self._drop(table[id], now)
        if not table:
            self._tables.pop(connection, None)

    def phases(self) -> Counter[tuple[str, str, str]]:
        """Streams in flight by upstream, label of the model, and phase."""
        return Counter(
            (stream.upstream, self.label(stream), stream.phase) for stream in self if stream.stream
        )

    def stalled(self, now: float, stall_seconds: float) -> Counter[tuple[str, str]]:
        """Streams that were silent for longer since their last output, by upstream and label.

        Not those whose client takes no bytes: that is no stall of the server.
        """
        return Counter(
            (stream.upstream, self.label(stream))
            for stream in self
            if stream.stream
            and not stream.held
            and stream.last_at is not None
            and now - stream.last_at > stall_seconds
        )

    def label(self, exchange: Exchange) -> str:
        """Its model's label, as far as it is known by now."""
        if exchange.answered is not None:
            return exchange.label
        return self._models.label(exchange.upstream, exchange.asked)

    def _join(self, exchange: Exchange, model: str) -> None:
        if len(self._groups) > self._sweep_at:
            self._sweep(exchange.at - _DISORDER_SECONDS)
        group = self._groups.get((exchange.upstream, model))
        if group is None:
            group = self._groups[exchange.upstream, model] = _Group()
        exchange.group = group
        group.join(exchange)

    def _move(self, exchange: Exchange, model: str) -> None:
        """It has been a stream of this model all the time."""
        if exchange.group is not self._groups.get((exchange.upstream, model)):
            assert exchange.group is not None
            exchange.group.leave(exchange, exchange.at)
            self._join(exchange, model)

    def _move_waiting(self, upstream: str, asked: str, own: str) -> None:
        """Streams that wait under the name that was asked for are of the model behind it."""
        group = self._groups.get((upstream, asked))
        for exchange in list(group.members) if group else ():
            if exchange.answered is None:
                self._move(exchange, own)

    def _sweep(self, before: float) -> None:
        """Forget groups without streams in which nothing has happened since."""
        self._groups = {
            key: group
            for key, group in self._groups.items()
            if group.members or group.history.last >= before
        }
        self._sweep_at = 2 * len(self._groups) + _MANY_GROUPS


def _aborted(exchange: Exchange, now: float) -> End:
    """The end of an exchange whose worker cannot tell it any more."""
    begun = exchange.begun
    record: dict[str, Any] = {
        "kind": "end",
        "id": exchange.id,
        "time": begun.get("time"),
        "at": now,
        "request_id": begun.get("request_id"),
        "trace_id": begun.get("trace_id"),
        "parent_id": begun.get("parent_id"),
        "sampled": begun.get("sampled"),
        "user": begun.get("user"),
        "task": begun.get("task"),
        "upstream": exchange.upstream,
        "model": exchange.answered or begun.get("model"),
        "api": exchange.api,
        "stream": exchange.stream,
        "outcome": "aborted",
        "code": exchange.code,
        "answered": exchange.answered is not None,
        "duration_seconds": max(0.0, now - exchange.at),
        "ttft_seconds": exchange.ttft_seconds,
        "ttfv_seconds": exchange.ttfv_seconds,
        "first_at": exchange.first_at,
        "last_at": exchange.last_at,
        "output_tokens": exchange.tokens or None,
        "output_characters": exchange.characters or None,
        "token_source": "estimate" if exchange.tokens else None,
        "skipped": "not_completed" if exchange.stream else None,
    }
    return cast(End, {key: value for key, value in record.items() if value is not None})
