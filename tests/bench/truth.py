"""Whether what the proxy measured is true: its request log against the upstream's own times."""

import json
import time
from pathlib import Path
from typing import Any

import uvloop

from .load import Stream, StreamLoad, run_streams
from .site import Sample, Site, costs, shares
from .streams import percentile

_LOG_SECONDS = 5.0


def measure_truth(site: Site, load: StreamLoad, log: Path) -> Sample:
    """TTFT (error in ms) and decode rate (error in per cent) of every stream of a load.

    The truth is what stands in the chunks: when the upstream wrote the first and the last; and the
    client's clock when it sent the request.
    """
    run = uvloop.run(run_streams(site.port, load, lambda: costs(site)))
    logged = _logged(log, {stream.request_id for stream in run.streams})
    pairs = [(s, logged[s.request_id]) for s in run.streams if s.request_id in logged]
    ttft = [abs(line["ttft_seconds"] - s.ttft) * 1e3 for s, line in pairs if "ttft_seconds" in line]
    rate = [error for s, line in pairs if (error := _rate_error(s, line)) is not None]
    return {
        **shares(run.before, run.after, run.chunks, run.seconds, "chunk"),
        "streams": len(run.streams),
        "logged": len(pairs),
        "with_ttft": len(ttft),
        "with_rate": len(rate),
        "ttft_error_p50_ms": percentile(ttft, 0.5),
        "ttft_error_p99_ms": percentile(ttft, 0.99),
        "rate_error_p50_percent": percentile(rate, 0.5),
        "rate_error_p99_percent": percentile(rate, 0.99),
        "chunks_per_second": run.chunks / run.seconds,
    }


def _rate_error(stream: Stream, line: dict[str, Any]) -> float | None:
    if stream.lost or "decode_tokens_per_second" not in line:
        return None
    measured = float(line["decode_tokens_per_second"])
    return abs(measured / stream.decode_rate - 1) * 100


def _logged(path: Path, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """The log's lines of these requests, once all are there or no more come."""
    until = time.monotonic() + _LOG_SECONDS
    lines: dict[str, dict[str, Any]] = {}
    while len(lines) < len(wanted) and time.monotonic() < until:
        time.sleep(0.1)
        text = path.read_text() if path.exists() else ""
        whole = [json.loads(line) for line in text.split("\n")[:-1]]
        lines = {line["request_id"]: line for line in whole if line["request_id"] in wanted}
    return lines
