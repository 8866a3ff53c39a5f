"""What a worker tells the keeper: exchanges that began, moved and ended, and its own delays.

On the path of a chunk there is only a flag to look at; the rest is done a few times a second.
"""

from collections.abc import Callable
from typing import Protocol

from proxy.channel import Connected, Delays, Identity, Record
from proxy.errors import Failure
from proxy.exchange import Exchange, refusal
from proxy.headers import Fields


class Outlet(Protocol):
    """Where records go (`sender.Sender`)."""

    def put(self, record: Record) -> None:
        """Take a record."""
        ...

    def wake(self) -> None:
        """Something moved: collect it soon."""
        ...


Open = Callable[[Callable[[], float | None], Callable[[], list[Record]]], Outlet]

# Exchanges whose progress is told in one go, and the time for chunks until the next go.
_AT_ONCE = 10
_SOON_SECONDS = 0.001
_ROUND_SECONDS = 0.25
# A stream that has told its first output is told of in each second round, unless it would be taken
# for stalled meanwhile.
_LATER_ROUNDS = 2
_PATIENT_SECONDS = 1.0


class Ledger:
    """The exchanges of one worker.

    Args:
        outlet: makes the outlet from the functions that it is to call: `collect` before each
            batch, and `snapshot` for what a new keeper must know.
        stall_seconds: so long a silence is a stall.
    """

    def __init__(self, outlet: Open, stall_seconds: float = 2.0) -> None:
        self._later_rounds = _LATER_ROUNDS if stall_seconds >= _PATIENT_SECONDS else 1
        self._running: dict[int, Exchange] = {}
        # What moved since it was last told of; the later ones are those whose TTFT is told.
        self._moved: dict[Exchange, None] = {}
        self._later: dict[Exchange, None] = {}
        self._rounds = 0
        self._round: list[Exchange] = []  # those among them that are told of now
        self._lag: list[float] = []
        self._overhead: dict[str, list[float]] = {}
        self._servers: dict[str, str] = {}
        self._outlet = outlet(self.collect, self.snapshot)

    def begin(self, exchange: Exchange) -> None:
        """It goes to the upstream."""
        self._running[exchange.number] = exchange
        self._outlet.put(exchange.begin())

    def moved(self, exchange: Exchange) -> None:
        """A chunk of it arrived, the first since the last batch."""
        exchange.moved = True
        moved = self._later if exchange.meter.first_told else self._moved
        moved[exchange] = None
        self._outlet.wake()

    def end(self, exchange: Exchange) -> None:
        """It is over."""
        if exchange.moved:
            self._moved.pop(exchange, None)
            self._later.pop(exchange, None)
        self._progress(exchange)  # its end may have completed an event
        del self._running[exchange.number]
        self._outlet.put(exchange.end())

    def refused(self, failure: Failure, fields: Fields, wall: float) -> None:
        """A request with these headers became no exchange."""
        self._outlet.put(refusal(failure, fields, wall))

    def _progress(self, exchange: Exchange) -> None:
        record = exchange.progress()
        if record is not None:
            self._outlet.put(record)

    def overhead(self, upstream: str) -> list[float]:
        """Where delays between a chunk's read and its hand-over go, seconds."""
        return self._overhead.setdefault(upstream, [])

    def lag(self, seconds: float) -> None:
        """The event loop was that late."""
        self._lag.append(seconds)
        self._outlet.wake()

    def connected(self, upstream: str, seconds: float | None) -> None:
        """A new connection took so long, or failed."""
        record: Connected = {"kind": "connected", "upstream": upstream}
        if seconds is not None:
            record["seconds"] = seconds
        self._outlet.put(record)

    def server(self, upstream: str, name: str) -> None:
        """An answer carried this `Server` header."""
        if name and self._servers.get(upstream) != name:
            self._servers[upstream] = name
            self._outlet.put(self._identity(upstream, name))

    @staticmethod
    def _identity(upstream: str, name: str) -> Identity:
        return {"kind": "identity", "upstream": upstream, "server": name[:128]}

    def collect(self) -> float | None:
        """Put some of what moved since the last batch; seconds until the rest, None if all is told.

        A thousand records in one go would stop all streams for 10 ms.
        """
        if not self._round:
            self._begin_round()
        told, self._round = self._round[:_AT_ONCE], self._round[_AT_ONCE:]
        for exchange in told:
            if exchange.moved:  # else it has ended since
                self._progress(exchange)
        if self._round:
            return _SOON_SECONDS
        if self._lag or any(self._overhead.values()):
            self._outlet.put(self._delays())
        return _ROUND_SECONDS if self._moved or self._later else None

    def _begin_round(self) -> None:
        self._rounds += 1
        self._round = list(self._moved)
        self._moved = {}
        if self._rounds % self._later_rounds == 0:
            self._round += self._later
            self._later = {}

    def _delays(self) -> Delays:
        record: Delays = {"kind": "delays", "lag": self._lag, "overhead": {}}
        self._lag = []
        for upstream, seconds in self._overhead.items():
            if seconds:
                record["overhead"][upstream] = seconds.copy()
                seconds.clear()  # the list stays the same: running exchanges hold it
        return record

    def snapshot(self) -> list[Record]:
        """What a keeper that has just come must know."""
        servers = [self._identity(u, name) for u, name in self._servers.items()]
        return [*(exchange.begin() for exchange in self._running.values()), *servers]
