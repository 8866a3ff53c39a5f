"""What a scrape of the metrics every second does to the chunks.

`python -m tests.bench.scrape PORT` is the scraper: a process of its own, like Prometheus.
"""

import sys
import time
import urllib.request

from . import process
from .load import StreamLoad
from .peers import ROOT
from .site import Sample, Site, scratch
from .streams import measure_streams
from .traffic import MODELS

_EVERY_SECONDS = 1.0
_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"


def fetch(port: int) -> int:
    """One scrape: bytes of its answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": _ACCEPT}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return len(answer.read())


def measure_scrape(site: Site, load: StreamLoad, models: int) -> Sample:
    """The same load without and with scrapes, over a registry of so many models."""
    names = MODELS[:models]
    measure_streams(site, StreamLoad(models, 20, 0.2, 0.5), names)  # makes the series
    time.sleep(1.0)
    without = measure_streams(site, load, names)
    began = time.monotonic()
    size = fetch(site.admin)
    took = time.monotonic() - began
    command = [sys.executable, "-m", "tests.bench.scrape", str(site.admin)]
    with scratch() as directory, process.running(command, directory, {"PYTHONPATH": str(ROOT)}):
        under = measure_streams(site, load, names)
    return {
        "page_mb": size / 1e6,
        "scrape_ms": took * 1e3,
        "delay_p50_us_without": without["delay_p50_us"],
        "delay_p50_us_with": under["delay_p50_us"],
        "delay_p99_us_without": without["delay_p99_us"],
        "delay_p99_us_with": under["delay_p99_us"],
        "cpu_us_per_chunk_without": without["cpu_us_per_chunk"],
        "cpu_us_per_chunk_with": under["cpu_us_per_chunk"],
        "others_share": max(without["others_share"], under["others_share"]),
    }


def scrape_for_ever(port: int) -> None:
    """Until killed."""
    while True:
        began = time.monotonic()
        fetch(port)
        time.sleep(max(0.0, began + _EVERY_SECONDS - time.monotonic()))


if __name__ == "__main__":
    scrape_for_ever(int(sys.argv[1]))
