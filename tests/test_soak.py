"""The soak in short; `make soak` is the long one."""

import sys

import pytest
from soak.moods import FAULTS
from soak.run import soak


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_every_exchange_is_accounted_for_and_nothing_is_left() -> None:
    report = soak(exchanges=8_000, warm=6_000)
    assert report.problems == []
    assert report.exchanges == report.counted == report.lines == 8_000
    assert min(report.sent[name] for name in FAULTS) > 20
