from typing import Any

import pytest
from records import begin, end, output, value

from proxy.delivery import Delivery
from proxy.labels import Models
from proxy.live import Exchange, Live
from proxy.metrics import Metrics

UM = {"upstream": "up", "model": "m"}


class Rig:
    """A stream that has been delivered with these gaps."""

    def __init__(self, *gaps: list[float]) -> None:
        self.metrics = Metrics({})
        self.delivery = Delivery(self.metrics, stall_seconds=2.0)
        exchange = Live(Models(9, lambda: None)).begin(1, begin(1, 10.0))
        assert exchange is not None
        self.exchange: Exchange = exchange
        for some in gaps:
            exchange.take(output(1, 11.0, gaps=some))

    def end(self, known: bool = True, **more: Any) -> None:
        self.delivery.end(self.exchange if known else None, "m", end(1, 12.0, **more))

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.metrics.collect(), f"tokometer_{name}", **UM, **labels)


def test_characters_and_tokens_per_chunk_of_completed_streams_are_observed() -> None:
    rig = Rig()
    rig.end(decode_characters_per_second=90.0, tokens_per_chunk=2.5)
    assert rig.value("decode_characters_per_second_sum") == 90
    assert rig.value("decode_characters_per_second_bucket", le="80.0") == 0
    assert rig.value("decode_characters_per_second_bucket", le="100.0") == 1
    assert rig.value("tokens_per_chunk_sum") == 2.5


def test_gaps_of_all_records_of_a_stream_make_one_ratio() -> None:
    rig = Rig([0.0001, 0.1] * 4, [0.0001, 0.1] * 4)
    rig.end()
    assert rig.value("burst_ratio_count") == 1
    assert rig.value("burst_ratio_sum") == pytest.approx(0.5)


def test_a_stream_that_did_not_complete_is_not_observed() -> None:
    rig = Rig([0.1] * 20)
    rig.end(outcome="client_closed", tokens_per_chunk=2.5)
    assert rig.value("burst_ratio_count") is None
    assert rig.value("tokens_per_chunk_count") is None


def test_gaps_that_the_client_made_are_not_looked_at() -> None:
    rig = Rig([0.0, 0.1] * 20)
    rig.end(skipped="client_limited", tokens_per_chunk=1.0)
    assert rig.value("burst_ratio_count") is None
    assert rig.value("tokens_per_chunk_count") == 1


def test_a_stream_whose_begin_was_not_told_has_no_gaps() -> None:
    rig = Rig()
    rig.end(known=False, tokens_per_chunk=1.0)
    assert rig.value("burst_ratio_count") is None
    assert rig.value("tokens_per_chunk_count") == 1
