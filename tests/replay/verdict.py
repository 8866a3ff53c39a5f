"""What an alert's firing was worth: found and after how long, or false."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .firing import Episode
from .scenarios import Scenario


@dataclass
class Verdict:
    """One alert in one scenario, over the seeds."""

    scenario: Scenario
    phase: str  # that the alert is for
    seeds: int = 0
    false: list[int] = field(default_factory=list)  # false alarms of each seed
    found: list[float] = field(default_factory=list)  # minutes after the change, where found
    times: list[int] = field(default_factory=list)  # how often it fired then

    def add(self, episodes: Sequence[Episode], change: float) -> None:
        """One more seed; `change` is in seconds as the episodes are."""
        self.seeds += 1
        true = [one for one in episodes if self.wanted and one.begin >= change]
        self.false.append(len(episodes) - len(true))
        if true:
            self.found.append((true[0].begin - change) / 60)
            self.times.append(len(true))

    @property
    def wanted(self) -> bool:
        """Whether the alert should fire at all."""
        return self.scenario.slow == self.phase

    @property
    def failures(self) -> list[str]:
        """What is not as it should be, if anything."""
        told = []
        if sum(self.false):
            told.append(f"{sum(self.false)} false alarms in {self.seeds} runs")
        within = self.scenario.within
        if self.wanted and within is not None:
            late = [f"{one:.1f}" for one in self.found if one > within]
            if late:
                told.append(f"found after {', '.join(late)} minutes, more than {within:g}")
            if missed := self.seeds - len(self.found):
                told.append(f"missed in {missed} of {self.seeds} runs")
        return told

    def __str__(self) -> str:
        parts = []
        if self.found:
            middle, worst = statistics.median(self.found), max(self.found)
            parts.append(f"{len(self.found)}/{self.seeds} in {middle:.0f} ({worst:.0f}) min")
        elif self.wanted:
            parts.append(f"missed, 0/{self.seeds}")
        if sum(self.false):
            parts.append(f"**{sum(self.false)} false**")
        return ", ".join(parts) or "-"


def table(verdicts: Iterable[Sequence[Verdict]], alerts: Sequence[str]) -> str:
    """Markdown: a row for each scenario, a column for each alert."""
    lines = [f"| scenario | {' | '.join(alerts)} |", "|---" * (len(alerts) + 1) + "|"]
    for row in verdicts:
        lines.append(f"| {row[0].scenario.name} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)
