"""The upstream is held up while the client takes nothing, and that time is the client's."""

from collections.abc import Callable
from typing import Any

import pytest
from exchanges import headed, opened
from handheld import Talk, talk
from upstreams import EVENTS

from proxy.channel import Record
from proxy.hold import Hold
from proxy.ledger import Ledger


class Outlet:
    """Takes all, tells nobody."""

    def __init__(self, collect: Callable[[], Any], snapshot: Callable[[], Any]) -> None:
        pass

    def put(self, record: Record) -> None: ...

    def wake(self) -> None: ...


def test_reading_stops_and_goes_on_with_the_client_and_the_wait_is_timed() -> None:
    async def main(talk: Talk) -> None:
        await talk.begin(EVENTS)
        exchange, ledger = opened(), Ledger(Outlet)
        ledger.begin(exchange)
        headed(exchange)
        hold = Hold(talk.answer, exchange, ledger, talk.clock)
        hold.begin()
        hold.begin()
        assert (talk.wire.reading, exchange.held, exchange.moved) == (False, True, True)
        talk.clock.now += 3
        hold.end()
        hold.end()
        assert (talk.wire.reading, exchange.held) == (True, False)
        assert exchange.meter.gaps.wait == pytest.approx(3)

    talk(main)
