"""What a proxy costs and adds under streams."""

from collections.abc import Sequence

import uvloop

from . import accounting
from .load import StreamLoad, run_streams
from .site import Costs, Sample, Site, costs, shares
from .traffic import MODEL


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed; NaN of none."""
    ranked = sorted(values)
    if not ranked:
        return float("nan")
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def measure_streams(site: Site, load: StreamLoad, models: Sequence[str] = (MODEL,)) -> Sample:
    """One load on one proxy. Delays in microseconds, memory in KiB."""

    def probe() -> tuple[Costs, accounting.Memory]:
        return costs(site), accounting.memory(site.pid) if site.pid else site.idle

    run = uvloop.run(run_streams(site.port, load, probe, models))
    added = [stream.added / 1e3 for stream in run.begun]
    quiet = [stream.added / 1e3 for stream in run.quiet]
    delays = [delay / 1e3 for delay in run.delays]
    grown = run.after[1].proportional - site.idle.proportional
    return {
        **shares(run.before[0], run.after[0], run.chunks, run.seconds, "chunk"),
        "delay_p50_us": percentile(delays, 0.5),
        "delay_p99_us": percentile(delays, 0.99),
        "ttft_p50_us": percentile(added, 0.5),
        "ttft_p99_us": percentile(added, 0.99),
        **({"quiet_ttft_p99_us": percentile(quiet, 0.99)} if quiet else {}),
        "quiet_share": len(quiet) / load.streams,
        "memory_kib_per_stream": grown / 1024 / load.streams,
        "chunks_per_second": run.chunks / run.seconds,
        "delivered_share": run.chunks / run.seconds / (load.streams * load.rate),
        "lost": run.lost,
    }
