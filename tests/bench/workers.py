"""What more worker processes bring: throughput, and how evenly connections fall on them."""

import uvloop

from . import accounting
from .load import StreamLoad, run_streams
from .site import Sample, Site, costs, shares
from .small import RequestLoad, measure_requests


def measure_workers(site: Site, flood: StreamLoad, requests: RequestLoad, workers: int) -> Sample:
    """A load above what one worker can carry, and requests as fast as they are answered."""
    run = uvloop.run(
        run_streams(site.port, flood, lambda: (costs(site), accounting.connections(site.pid or 0)))
    )
    before, after = run.before[0], run.after[0]
    open_sockets = sorted(run.after[1].values(), reverse=True)[:workers]
    small = measure_requests(site, requests)
    return {
        **shares(before, after, run.chunks, run.seconds, "chunk"),
        "chunks_per_second": run.chunks / run.seconds,
        "offered_chunks_per_second": flood.streams * flood.rate,
        "busy_cores": (after.proxy - before.proxy) / run.seconds,
        "fewest_to_most_connections": open_sockets[-1] / max(1, open_sockets[0]),
        "requests_per_second": small["requests_per_second"],
        "cpu_us_per_request": small["cpu_us_per_request"],
        "failed": small["failed"],
    }
