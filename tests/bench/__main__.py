"""`python -m tests.bench`: compare; `core`: what the core costs; `install`: get the peers."""

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from .peers import PEERS, SCRATCH
from .plan import Plan, Results, full, quick, run
from .table import tables
from .targets import targets


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
    names = given.peers.split(",") if given.peers else [peer.name for peer in PEERS]
    results = run(plan, [peer for peer in PEERS if peer.name in names])
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
    known = ",".join(peer.name for peer in PEERS)
    parser.add_argument("--peers", metavar="NAMES", help=f"of {known}; all if not given")
    parser.add_argument("--json", type=Path, default=SCRATCH / "results.json", metavar="PATH")
    return parser


def _report(results: Results, plan: Plan) -> dict[str, object]:
    figures = {
        name: {
            scene: {figure: results.get(name, scene, figure) for figure in samples[0]}
            for scene, samples in scenes.items()
        }
        for name, scenes in results.rounds.items()
    }
    return {
        "machine": {
            "system": platform.platform(),
            "python": sys.version,
            "processors": os.cpu_count(),
        },
        "plan": dataclasses.asdict(plan),
        "skipped": results.skipped,
        "medians": figures,
        "targets": [{**target._asdict(), "met": target.met} for target in targets(results)],
        "rounds": results.rounds,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
