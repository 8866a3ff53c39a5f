"""A real Prometheus on the past: blocks are made by promtool, questions go over the HTTP API."""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

_PATIENCE = 120.0  # seconds, on a busy machine
_POLL_SECONDS = 0.02
# As a server's own blocks of the past are, after compaction; those of 2 h cost every question more.
BLOCK = 54 * 3600
_LARGE = "--max-block-duration=54h"
# Rules mark what is gone as stale; promtool makes no such marks. With all samples a minute apart,
# what is not told again within a minute is gone.
_LOOKBACK = "59999ms"
Labels = Mapping[str, str]
Points = Sequence[tuple[float, float]]  # seconds since the epoch, value


def run(*command: str | Path) -> str:
    """Standard output of a command. AssertionError with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]} failed: {done.stdout}{done.stderr}"
    return done.stdout


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Api:
    """The HTTP API of a Prometheus that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=_PATIENCE)

    def close(self) -> None:
        self._client.close()

    def samples(self, name: str, end: float, seconds: float) -> list[tuple[Labels, Points]]:
        """What is stored under a name in the `seconds` up to `end`, by series."""
        asked: dict[str, str | float] = {"query": f"{name}[{seconds:.0f}s]", "time": end}
        found = self._get("/api/v1/query", asked)["data"]["result"]
        return [
            (series["metric"], [(float(at), float(value)) for at, value in series["values"]])
            for series in found
        ]

    def instant(self, expression: str, at: float | None = None) -> list[tuple[Labels, float]]:
        """Values of an expression at one moment, now if none is given, by series."""
        asked: dict[str, str | float] = {"query": expression}
        if at is not None:
            asked["time"] = at
        found = self._get("/api/v1/query", asked)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def groups(self) -> list[dict[str, Any]]:
        """Groups of rules as Prometheus tells them: evaluation times, alerts that fire."""
        groups: list[dict[str, Any]] = self._get("/api/v1/rules", {})["data"]["groups"]
        return groups

    def processor_seconds(self) -> float:
        """Processor time that it has used."""
        text = self._client.get("/metrics").text
        found = re.search(r"^process_cpu_seconds_total (\S+)", text, re.MULTILINE)
        assert found
        return float(found[1])

    def ready(self) -> bool:
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def _get(self, path: str, asked: Mapping[str, str | float]) -> dict[str, Any]:
        answer = self._client.post(path, data=asked) if asked else self._client.get(path)
        told: dict[str, Any] = answer.json()
        assert told["status"] == "success", f"{asked}: {told.get('error')}"
        return told


class Store:
    """A folder of Prometheus' blocks, its configuration and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks = folder / "data"
        self.blocks.mkdir(parents=True, exist_ok=True)

    def add(self, file: Path) -> None:
        """Make blocks of a file of samples in OpenMetrics' text format."""
        run(
            "promtool", "tsdb", "create-blocks-from", _LARGE, "-q", "openmetrics", file, self.blocks
        )

    def record(self, rules: Path, start: int, end: int) -> None:
        """Make blocks of what recording rules, none of which needs another, would have said."""
        made = self.folder / "made"
        with self.serving(lookback=_LOOKBACK) as api:
            whole = [f"--url={api.url}", f"--start={start}", f"--end={end}"]
            # Blocks that come while a server runs are seen a minute later, or half seen.
            run(
                "promtool",
                "tsdb",
                "create-blocks-from",
                _LARGE,
                "rules",
                *whole,
                f"--output-dir={made}",
                rules,
            )
        for block in list(made.iterdir()):
            block.rename(self.blocks / block.name)

    @contextlib.contextmanager
    def serving(self, configuration: str = "global: {}\n", lookback: str = "5m") -> Iterator[Api]:
        """A Prometheus on these blocks, on a free port of the loopback."""
        config = self.folder / "prometheus.yml"
        config.write_text(configuration, encoding="utf-8")
        port = free_port()
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self.blocks}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--query.lookback-delta={lookback}",
            "--query.timeout=10m",
            "--query.max-samples=500000000",
        ]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        api = Api(f"http://127.0.0.1:{port}")
        try:
            self._wait(process, api)
            yield api
        finally:
            api.close()
            process.terminate()
            process.wait(_PATIENCE)

    def _wait(self, process: subprocess.Popen[bytes], api: Api) -> None:
        until = time.monotonic() + _PATIENCE
        while not api.ready():
            said = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-500:]
            assert process.poll() is None, f"prometheus ended: {said}"
            assert time.monotonic() < until, f"prometheus is not ready: {said}"
            time.sleep(_POLL_SECONDS)
