"""Back-pressure: the upstream is not read while its client takes nothing."""

from proxy.answer import Answer
from proxy.connection import Clock
from proxy.exchange import Exchange
from proxy.ledger import Ledger


class Hold:
    """Stops reading the upstream while the client takes no bytes, and times that."""

    __slots__ = ("_answer", "_clock", "_exchange", "_ledger", "_since")

    def __init__(self, answer: Answer, exchange: Exchange, ledger: Ledger, clock: Clock) -> None:
        self._answer = answer
        self._exchange = exchange
        self._ledger = ledger
        self._clock = clock
        self._since: float | None = None

    def begin(self) -> None:
        """The client's socket is full."""
        if self._since is None:
            self._since = self._clock()
            self._answer.pause()
            self._tell(True)

    def end(self) -> None:
        """It takes bytes again, or nothing more is to come."""
        if self._since is not None:
            self._exchange.meter.waited(self._clock() - self._since)
            self._since = None
            self._answer.resume()
            self._tell(False)

    def _tell(self, held: bool) -> None:
        self._exchange.held = held
        if not self._exchange.moved:
            self._ledger.moved(self._exchange)
