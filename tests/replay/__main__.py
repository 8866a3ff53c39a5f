"""`python -m tests.replay`: all scenarios, and the table in docs/alerting.md."""

import argparse
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from deploy.prometheus.rules.settings import PRESETS

from .cost import DAYS, MODELS, cost
from .replay import Span
from .scenarios import SCENARIOS
from .trial import OURS, Trial
from .verdict import table

FRESH = 20  # the rules were tuned on the seeds before this one
DOCUMENT = Path(__file__).parents[2] / "docs/alerting.md"
_SPANS = {"short": Span(26 * 60, 8 * 60), "week": Span((8 * 24 + 2) * 60, 8 * 60)}
_TITLES = {
    "P95AgainstYesterday_decode": "TPOT p95 > 1.5 x yesterday",
    "P95AgainstYesterday_prefill": "TTFT p95 > 1.5 x yesterday",
    "ZScore_decode": "z of mean TPOT > 3",
    "ZScore_prefill": "z of mean TTFT > 3",
}


def main(arguments: Sequence[str]) -> int:
    """An exit code: 1 if our alerts are not as they should be."""
    parser = argparse.ArgumentParser("python -m tests.replay", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many; default: 5")
    parser.add_argument("--first", type=int, default=FRESH, metavar="SEED", help=f"({FRESH})")
    parser.add_argument("--baseline", choices=_SPANS, default="short")
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios with it in the name")
    parser.add_argument("--write", action="store_true", help="put the table into docs/alerting.md")
    parser.add_argument("--cost", action="store_true", help="only what the rules cost Prometheus")
    given = parser.parse_args(arguments)
    if given.cost:
        text = _cost()
        if given.write:
            _write("cost", text)
        print(text)
        return 0
    scenarios = [one for one in SCENARIOS if given.only in one.name]
    trial = Trial(scenarios, PRESETS[given.baseline], _SPANS[given.baseline], compare=True)
    start = time.monotonic()
    for seed in range(given.first, given.first + given.seeds):
        trial.run(
            seed, lambda text: print(f"{time.monotonic() - start:6.0f} s  {text}", flush=True)
        )
        text = _report(trial, given.baseline, f"seeds {given.first} to {seed}")
        if given.write:
            _write(given.baseline, text)
    print(f"\n{text}")
    return 1 if trial.failures() else 0


def _report(trial: Trial, baseline: str, seeds: str) -> str:
    hours, after = (trial.span.before + trial.span.after) / 60, trial.span.after / 60
    failures = [f"- {failure}" for failure in trial.failures()] or ["- none"]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {_machine()}.",
        f"Baseline setting `{baseline}`, {seeds}, {hours:g} hours for each scenario, "
        f'change at hour {trial.span.before / 60:g}. "5/5 in '
        '20 (23) min": found in 5 of 5 runs, after 20 minutes in the middle and 23 at worst.',
        "",
        table(trial.verdicts, [_TITLES.get(alert, alert) for alert in trial.phases]),
        "",
        f"A regression that was found made its alert fire {trial.firings():.1f} times in the "
        f"{after:g} hours, on average.",
        "",
        f"Where {' and '.join(OURS)} are not as wanted:",
        "",
        *failures,
    ]
    return "\n".join(lines) + "\n"


def _cost() -> str:
    with tempfile.TemporaryDirectory() as folder:
        groups, processor = cost(Path(folder))
    slowest = sorted(groups.items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"`{name}` {value:.2f} s" for name, value in slowest)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_machine()}. Prometheus with {DAYS} days of {MODELS} busy "
        f"models, a sample a minute: one evaluation of all rules costs {processor:.2f} s "
        f"of processor time and took {sum(groups.values()):.2f} s on a machine with a load average "
        f"of {os.getloadavg()[1]:.0f}; of that {told}.\n"
    )


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _write(block: str, text: str) -> None:
    before = DOCUMENT.read_text("utf-8")
    pattern = re.compile(rf"(<!-- replay {block} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
    after, count = pattern.subn(lambda found: f"{found[1]}{text}{found[3]}", before)
    assert count == 1, f"{DOCUMENT} has no <!-- replay {block} -->"
    DOCUMENT.write_text(after, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
