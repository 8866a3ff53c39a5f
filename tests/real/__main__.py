"""The run: engine, proxy, rounds of streams, verdict. Started by run.py."""

import asyncio
import json
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import httpx

from .clients import Clients
from .engines import ENGINES, Engine
from .environments import REAL, ROOT
from .processes import free_port, server
from .rounds import Bench
from .verdict import Left, Row, judge, judge_left, table, table_of_left

CONCURRENCY = (1, 4)
ENGINE_SECONDS = 300.0  # to load and answer
PROXY_SECONDS = 15.0
HELD_UP = 0.05  # seconds at a stretch
BUSY = 0.5  # processes that run on average: the engine wants all processors


def main() -> int:
    name = os.environ.get("ENGINE") or "vllm"
    busy = os.getloadavg()[0]
    if name not in ENGINES:
        print(f"ENGINE={name}: known are {', '.join(ENGINES)}", file=sys.stderr)
        return 2
    if busy > BUSY:
        print(f"load {busy:.1f}: other work on this machine shows in the times", file=sys.stderr)
    # ended from outside is ended like Ctrl-C: the servers go first
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    REAL.mkdir(exist_ok=True)
    try:
        return run(name)
    except KeyboardInterrupt:
        print("interrupted; all servers are ended", file=sys.stderr)
        return 130


def run(name: str) -> int:
    """0 where every bound is met, else 1."""
    port, proxy_port, admin_port = free_port(), free_port(), free_port()
    engine = ENGINES[name](port)
    engine_url, proxy_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{proxy_port}"
    log = REAL / f"requests-{name}.jsonl"
    log.unlink(missing_ok=True)
    proxy: list[str | Path] = [
        *(ROOT / ".venv" / "bin" / "tokometer", "serve", "--upstream", engine_url),
        *("--port", str(proxy_port), "--admin-port", str(admin_port), "--log-requests", log),
    ]
    with ExitStack() as servers:
        print(f"starting {name} on {engine_url}", flush=True)
        servers.enter_context(
            server(
                engine.command,
                f"{engine_url}/health",
                REAL / f"{name}.log",
                seconds=ENGINE_SECONDS,
                environment=engine.environment,
            )
        )
        ready = f"http://127.0.0.1:{admin_port}/readyz"
        servers.enter_context(
            server(proxy, ready, REAL / f"tokometer-{name}.log", seconds=PROXY_SECONDS)
        )
        print(f"{engine.package}: {engine.dials}", flush=True)
        rows, left = asyncio.run(measure(engine, engine_url, proxy_url, log))
    write_results(engine, rows, left)
    return report(engine, rows, left)


async def measure(
    engine: Engine, engine_url: str, proxy_url: str, log: Path
) -> tuple[list[Row], list[Left]]:
    """All rounds of all interfaces, each said when it is done."""
    clients = Clients(proxy_url, engine.model)
    rows, left = [], []
    async with httpx.AsyncClient() as http:
        bench = Bench(engine, engine_url, log, clients, http)
        try:
            for interface in engine.interfaces:
                await bench.warm_up(interface)
                for concurrency in CONCURRENCY:
                    print(f"{interface}, {concurrency} at once", flush=True)
                    rows.append(judge(engine, await bench.measure(interface, concurrency)))
                if engine.abandons:
                    print(f"{interface}, abandoned", flush=True)
                    left.append(judge_left(await bench.abandon(interface)))
        finally:
            await clients.close()
    return rows, left


def report(engine: Engine, rows: list[Row], left: list[Left]) -> int:
    print(f"\n{table(rows)}")
    if not engine.reports_ttft:
        print("TTFT of the engine is its prefill alone, without the wait for it: not judged")
    if left:
        print(f"\n{table_of_left(left)}")
    judged: list[Row | Left] = [*rows, *left]
    missed = [(row.interface, reason) for row in judged for reason in row.missed]
    for interface, reason in missed:
        print(f"MISSED {interface}: {reason}")
    if any(row.missed and row.held_up > HELD_UP for row in rows):
        print("this process was held up meanwhile: on a busy machine times tell little")
    passed = sum(not row.missed for row in judged)
    print(f"\n{passed} passed, {len(judged) - passed} failed")
    return 1 if missed else 0


def write_results(engine: Engine, rows: list[Row], left: list[Left]) -> None:
    """The numbers of the tables, unrounded, for whoever wants to follow them over time."""
    path = REAL / f"results-{engine.name}.json"
    results = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": engine.name,
        "package": engine.package,
        "model": engine.model,
        "dials": engine.dials,
        "processors": os.cpu_count(),
        "load": os.getloadavg()[1],  # mean of five minutes, the engine's own included
        "rounds": [asdict(row) for row in rows],
        "abandoned": [asdict(row) for row in left],
    }
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nresults in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
