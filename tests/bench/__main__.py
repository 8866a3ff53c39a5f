"""`python -m tests.bench`: compare; `core`: what the core costs; `install`: get the peers."""

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .peers import PEERS, SCRATCH
from .plan import Plan, full, quick
from .results import Results
from .run import Run
from .table import tables
from .targets import targets

EVERY = [peer.name for peer in PEERS]
QUICK = ["nginx", "envoy", "litellm", "tokometer"]  # those that the targets name


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; an exit code."""
    command = arguments[0] if arguments else ""
    if command == "core":
        from .core import main as core

        return core(arguments[1:])
    if command == "install":
        from .install import install

        return install(arguments[1:])
    given = _parser().parse_args(arguments)
    plan = quick() if given.quick else full()
    if given.rounds:
        plan = dataclasses.replace(plan, rounds=given.rounds)
    plan = dataclasses.replace(plan, only=given.only)
    names = given.peers.split(",") if given.peers else QUICK if given.quick else EVERY
    if unknown := [name for name in names if name not in EVERY]:
        print(
            f"--peers: no such proxy: {unknown[0]} (there are {','.join(EVERY)})", file=sys.stderr
        )
        return 2
    # Ended from outside, too, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda number, stack: sys.exit(128 + number))
    results = Run(plan).all(peer for peer in PEERS if peer.name in names)
    print(tables(results, plan))
    print("\ntargets")
    for target in targets(results):
        print(f"  {target}")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(_report(results, plan), indent=1))
    print(f"\nwritten to {given.json}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less than two minutes")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    peers = f"of {','.join(EVERY)}; all if not given, with --quick {','.join(QUICK)}"
    parser.add_argument("--peers", metavar="NAMES", help=peers)
    only = "measure only scenes whose names contain this, such as 1000x4/s"
    parser.add_argument("--only", metavar="TEXT", default="", help=only)
    parser.add_argument("--json", type=Path, default=SCRATCH / "results.json", metavar="PATH")
    return parser


def _report(results: Results, plan: Plan) -> dict[str, object]:
    return {
        "machine": {
            "system": platform.platform(),
            "python": sys.version,
            "processors": os.cpu_count(),
        },
        "plan": dataclasses.asdict(plan),
        "skipped": results.skipped,
        "medians": results.medians(),
        "targets": [{**target._asdict(), "met": target.met} for target in targets(results)],
        "rounds": results.rounds,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
