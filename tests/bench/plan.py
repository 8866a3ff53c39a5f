"""What is measured, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass

from .load import StreamLoad
from .small import RequestLoad


@dataclass(frozen=True)
class Plan:
    """Loads of one run."""

    streams: Sequence[StreamLoad]
    requests: Sequence[RequestLoad]
    body_bytes: int
    truth: StreamLoad
    scrape: StreamLoad
    scrape_models: Sequence[int]
    flood: StreamLoad
    flood_requests: RequestLoad
    rounds: int
    tries: int  # of a measurement that others on the host disturb
    patience: float  # seconds that may be spent in all on waiting for a quiet host
    only: str = ""  # what the names of the scenes contain that are measured


def full() -> Plan:
    """About ten minutes a round; on a busy host up to four times that."""
    carried = 4000  # chunks a second, whatever the number of streams
    return Plan(
        streams=[
            StreamLoad(1, 40, window=4, ramp=0),
            StreamLoad(5, 40, window=4, ramp=0.5),
            *(StreamLoad(n, carried / n, window=4, ramp=n / 250 + 0.6) for n in (100, 500, 1000)),
            StreamLoad(100, 40, window=4, ramp=1, in_step=True),
        ],
        requests=[
            RequestLoad(16, 500, 3, kept=True),
            RequestLoad(16, 500, 3, kept=False),
            RequestLoad(4, 20, 3, kept=True),
            RequestLoad(16, None, 3, kept=True),
            RequestLoad(16, None, 3, kept=False),
        ],
        body_bytes=10**9,
        truth=StreamLoad(100, 40, window=10, ramp=1),
        scrape=StreamLoad(100, 40, window=10, ramp=1),
        scrape_models=(10, 100),  # the proxy keeps 100 apart by default
        flood=StreamLoad(400, 100, window=4, ramp=1),
        flood_requests=RequestLoad(64, None, 3, kept=True),
        rounds=2,
        tries=4,
        patience=900.0,
    )


def quick() -> Plan:
    """Less than two minutes; the figures are coarse."""
    return Plan(
        streams=[
            StreamLoad(5, 40, window=1, ramp=0.1),
            StreamLoad(100, 40, window=1.5, ramp=0.4),
            StreamLoad(1000, 4, window=1.5, ramp=2),
        ],
        requests=[RequestLoad(16, 500, 1, kept=True), RequestLoad(16, 500, 1, kept=False)],
        body_bytes=10**9 // 4,
        truth=StreamLoad(100, 40, window=2, ramp=0.5),
        scrape=StreamLoad(100, 40, window=2, ramp=0.5),
        scrape_models=(10,),
        flood=StreamLoad(200, 100, window=1, ramp=0.3),
        flood_requests=RequestLoad(64, None, 1, kept=True),
        rounds=1,
        tries=1,
        patience=0.0,
    )
