"""A short replay; `make replay` is the long one, with its table in docs/alerting.md."""

from dataclasses import replace

import pytest

from deploy.prometheus.rules.settings import HOUR, MINUTE, PRESETS, Baseline

from .replay import Span
from .scenarios import SCENARIOS
from .trial import Trial

_SETTINGS = replace(PRESETS["short"], baseline=Baseline(5 * HOUR, HOUR, 15 * MINUTE))
_SPAN = Span(before=7 * 60, after=60)
_NAMES = ("prompts 5 x longer", "decode +25 %, prompts 5 x shorter", "prefill +25 %")


@pytest.fixture(scope="module")
def trial() -> Trial:
    chosen = [one for one in SCENARIOS if one.name in _NAMES]
    assert len(chosen) == len(_NAMES)
    trial = Trial(chosen, _SETTINGS, _SPAN, compare=False)
    trial.run(seed=1)
    return trial


def test_what_should_be_found_is_found_in_time_and_nothing_else(trial: Trial) -> None:
    assert not trial.failures()


def test_each_regression_was_found_by_its_own_alert(trial: Trial) -> None:
    found = {(one.scenario.name, one.phase) for row in trial.verdicts for one in row if one.found}
    assert found == {(name, name.split()[0]) for name in _NAMES[1:]}
