"""The alerts on trial: ours and the usual ones, on the same traffic."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import Settings

from . import usual
from .prometheus import Store
from .replay import Span, evaluate, fill
from .rules import Rules
from .scenarios import Scenario
from .verdict import Verdict

OURS = {"DecodeRegression": "decode", "PrefillRegression": "prefill"}


class Trial:
    """Scenarios by alerts, and what came of it over the seeds.

    Args:
        settings: of our rules.
        compare: with the usual alerts.
    """

    def __init__(
        self, scenarios: Sequence[Scenario], settings: Settings, span: Span, compare: bool
    ) -> None:
        self._scenarios = scenarios
        self.span = span
        self.phases = {**OURS, **(usual.PHASES if compare else {})}
        texts = [files.recording(settings), files.alerting(settings), usual.rules("1d")]
        self._rules = Rules(texts, self.phases)
        self.verdicts = [
            [Verdict(scenario, phase) for phase in self.phases.values()] for scenario in scenarios
        ]

    def run(self, seed: int, say: Callable[[str], None] = lambda text: None) -> None:
        """One more seed."""
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder))
            say(f"seed {seed}: traffic of {len(self._scenarios)} scenarios")
            fill(store, self._scenarios, seed, self.span)
            say(f"seed {seed}: rules")
            fired = evaluate(store, self._rules, self.span)
        for row in self.verdicts:
            for verdict, alert in zip(row, self.phases, strict=True):
                verdict.add(fired.get((verdict.scenario.name, alert), ()), self.span.before * 60)

    def firings(self) -> float:
        """How often one of our alerts fired for what it should find, mean of the runs it did."""
        fired = [
            times
            for row in self.verdicts
            for alert, verdict in zip(self.phases, row, strict=True)
            if alert in OURS
            for times in verdict.times
        ]
        return statistics.mean(fired) if fired else 0.0

    def failures(self) -> list[str]:
        """Where our alerts were not as they should be."""
        return [
            f"{alert}, {verdict.scenario.name}: {'; '.join(verdict.failures)}"
            for row in self.verdicts
            for alert, verdict in zip(self.phases, row, strict=True)
            if alert in OURS and verdict.failures
        ]
