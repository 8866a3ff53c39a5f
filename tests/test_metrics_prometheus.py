"""A real Prometheus scrapes the proxy, and its counts agree with the request log."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from engine.rig import FAST, running
from test_supervisor_serve import eventually, serving

from proxy.engine import EngineSettings
from proxy.sockets import listen

BODY = {"model": "sim-8b", "messages": [{"role": "user", "content": "Hello there"}]}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """The URL of a Prometheus that scrapes `target` twice a second."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 500ms}\n"
        f"scrape_configs: [{{job_name: tokometer, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    with listen("127.0.0.1", 0) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--enable-feature=exemplar-storage",
            "--log.level=error",
        ]
    )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def ask(url: str, query: str) -> float | None:
    """The one value of a query; None while there is none."""
    try:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
    except (httpx.TransportError, ValueError):  # it is starting
        return None
    found: list[Any] = answer["data"]["result"] if answer["status"] == "success" else []
    return float(found[0]["value"][1]) if found else None


def comes_to(url: str, query: str, value: float) -> bool:
    """Whether a query gives this value, once a scrape has not been too slow to count."""

    def close() -> bool:
        found = ask(url, query)
        return found is not None and abs(found - value) < 1e-6

    return eventually(close)


def test_counts_of_prometheus_agree_with_the_request_log(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with (
        running(EngineSettings(seed=3, **FAST)) as engine,
        serving("--upstream", engine, f"--log-requests={log}", "--workers=2") as proxy,
    ):
        proxy.ready()
        base = f"http://127.0.0.1:{proxy.port}"
        for number in range(12):
            body = BODY | {"stream": number % 3 > 0, "max_tokens": 5 + number}
            assert httpx.post(f"{base}/v1/chat/completions", json=body).status_code == 200
        assert httpx.post(f"{base}/v1/chat/completions", json={"model": "no"}).status_code >= 400
        with prometheus(tmp_path, f"127.0.0.1:{proxy.admin_port}") as url:
            total = "sum(tokometer_requests_total)"
            assert eventually(lambda: ask(url, total) == 13)
            rows = [json.loads(row) for row in log.read_text().splitlines()]
            assert len(rows) == 13
            told = {
                "sum(tokometer_output_tokens_total)": sum(r.get("output_tokens", 0) for r in rows),
                "sum(tokometer_prompt_tokens_total)": sum(r.get("prompt_tokens", 0) for r in rows),
                'sum(tokometer_requests_total{outcome="rejected"})': 1,
                "sum(tokometer_time_to_first_token_seconds_count)": 8,
                "sum(tokometer_time_to_first_token_seconds_sum)": sum(
                    r.get("ttft_seconds", 0) for r in rows
                ),
                "sum(tokometer_decode_tokens_per_second_count)": sum(
                    "decode_tokens_per_second" in r for r in rows
                ),
                "sum(tokometer_streams)": 0,
                'tokometer_workers{state="ready"}': 2,
            }
            for query, value in told.items():
                assert comes_to(url, query, value), query
