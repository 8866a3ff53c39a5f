"""What the rules cost a Prometheus that holds eight days of five busy models."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS, SECOND

from .export import STEP, Export, write
from .prometheus import Api, Store
from .rules import Rules, as_file
from .traffic import Change, Demand, Server, Traffic

MODELS = 5
DAYS = 8  # the baseline of the setting `week` and the day that it leaves out
_EVERY = 10 * SECOND  # from one evaluation to the next, so that there are several
_ROUNDS = 5
_PATIENCE = 300.0


class Cost(NamedTuple):
    """Of one evaluation of all groups of rules, seconds."""

    groups: Mapping[str, float]  # duration by group, the median of some evaluations
    processor: float  # of the whole server


def cost(folder: Path) -> Cost:
    """What a Prometheus with its data in `folder` says of itself."""
    store = Store(folder)
    # Rules are evaluated when all is there, so that this is where the traffic ends.
    end = int(time.time()) // STEP * STEP + int(_PATIENCE)
    start = end - DAYS * 86400
    _fill(store, start, end)
    settings = replace(PRESETS["week"], fast=_EVERY, slow=_EVERY)
    for name, text in (("rules.yml", files.recording), ("alerts.yml", files.alerting)):
        folder.joinpath(name).write_text(text(settings), encoding="utf-8")
    # Prometheus takes no sample from before the end of what it has: not all machines are slow.
    time.sleep(max(0.0, end - time.time()))  # the wall clock, which it goes by
    with store.serving("rule_files: [rules.yml, alerts.yml]\n") as api:
        rounds = [_round(api)]
        used, since = api.processor_seconds(), time.monotonic()
        rounds += [_round(api) for _ in range(_ROUNDS - 1)]
        used, passed = api.processor_seconds() - used, time.monotonic() - since
    groups = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return Cost(groups, used / passed * _EVERY)


def _fill(store: Store, start: int, end: int) -> None:
    """Traffic, and the pieces that the baseline is made of, as they were recorded."""
    minutes = (end - start) // STEP
    exports = [
        Export(f"upstream-{number}", _traffic(number, minutes).minutes(), start)
        for number in range(MODELS)
    ]
    for file in write(exports, store.folder):
        store.add(file)
        file.unlink()
    rules = Rules([files.recording(PRESETS["week"])], (), interval=PRESETS["week"].slow)
    tiles = [record for record in rules.records if record.name.endswith(":tile")]
    level = store.folder / "tiles.yml"
    level.write_text(as_file(tiles), encoding="utf-8")
    store.record(level, start, end)


def _traffic(number: int, minutes: int) -> Traffic:
    return Traffic(f"cost/{number}", Server(), Demand(), Change(), minutes, minutes)


def _round(api: Api) -> Mapping[str, float]:
    """Of an evaluation of all groups that is not the one before."""
    time.sleep(_EVERY)
    until = time.monotonic() + _PATIENCE
    while True:
        groups = {group["name"]: group for group in api.groups()}
        if all(group["evaluationTime"] for group in groups.values()):
            wrong = [r for g in groups.values() for r in g["rules"] if r["health"] != "ok"]
            assert not wrong, wrong[0]
            return {name: float(group["evaluationTime"]) for name, group in groups.items()}
        assert time.monotonic() < until, "not all groups were evaluated"
        time.sleep(1)
