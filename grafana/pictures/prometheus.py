"""A Prometheus of our own, on loopback, and questions to it."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from proxy.sockets import listen

LOOK_AGAIN = 0.05  # seconds between two looks whether it is ready
PATIENCE = 30.0  # seconds until it must be
ANSWER = 60.0  # seconds for an answer


class Prometheus:
    """A running one, which `client` asks: its base is the API's address."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def instant(self, expr: str, at: float) -> list[Any]:
        """The series of an expression at a moment (seconds since the epoch).

        Raises ValueError with Prometheus's own words if it is no valid expression.
        """
        return self._ask("query", {"query": expr, "time": at})

    def over_time(self, expr: str, start: float, end: float, step: float) -> list[Any]:
        """The series of an expression, a value every `step` seconds. Raises ValueError."""
        return self._ask("query_range", {"query": expr, "start": start, "end": end, "step": step})

    def exemplars(self, expr: str, start: float, end: float) -> list[Any]:
        """Exemplars of an expression's series. Raises ValueError."""
        return self._ask("query_exemplars", {"query": expr, "start": start, "end": end})

    def wait(self) -> None:
        """Until it is ready."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._ask("query", {"query": "1"})
                return
            except (httpx.TransportError, ValueError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_AGAIN)

    def _ask(self, what: str, parameters: dict[str, Any]) -> list[Any]:
        answer = self._client.post(what, data=parameters).json()
        if answer["status"] != "success":
            raise ValueError(f"{answer['error']}: {parameters['query']}")
        data = answer["data"]
        found: list[Any] = data if isinstance(data, list) else data["result"]
        return found


@contextmanager
def running(folder: Path, target: str, scrape: str, rules: Sequence[Path]) -> Iterator[Prometheus]:
    """One that scrapes `target` (host:port) and keeps its data in `folder`.

    `scrape` is how often, such as 5s; `prometheus` must be on PATH.
    """
    config = {
        "global": {"scrape_interval": scrape, "evaluation_interval": scrape},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "tokometer", "static_configs": [{"targets": [target]}]}],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    with listen("127.0.0.1", 0) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--enable-feature=exemplar-storage",
            "--log.level=error",
        ]
    )
    try:
        base = f"http://{address}/api/v1"
        with httpx.Client(base_url=base, trust_env=False, timeout=ANSWER) as client:
            prometheus = Prometheus(client)
            prometheus.wait()
            yield prometheus
    finally:
        process.terminate()
        process.wait()
