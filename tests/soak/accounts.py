"""The request log, held against what was sent."""

import json
from collections import Counter
from pathlib import Path

from .moods import MOODS

_LISTED = 5  # problems that are told one by one


class Accounts:
    """Every number that was sent, and how often and as what it was told of."""

    def __init__(self) -> None:
        self._moods: list[str] = []
        self._lines = bytearray()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []

    @property
    def sent(self) -> int:
        """Exchanges that were begun."""
        return len(self._moods)

    @property
    def told(self) -> int:
        """Lines so far."""
        return sum(self._lines)

    def send(self, name: str) -> int:
        """The number of a new exchange with this mood."""
        self._moods.append(name)
        self._lines.append(0)
        return len(self._moods) - 1

    def read(self, log: Path) -> None:
        """Take the lines of a log that nobody writes to any more."""
        with log.open("rb") as lines:
            for line in lines:
                self._take(json.loads(line))

    def _take(self, line: dict[str, object]) -> None:
        number = int(str(line["request_id"]))
        name = self._moods[number]
        self._lines[number] += 1
        outcome, code = str(line["outcome"]), line.get("code")
        self.outcomes[name, outcome] += 1
        if (outcome, code) not in MOODS[name].told:
            self._complain(f"{number} ({name}) is told of as {outcome} {code}")
        if self._lines[number] > 1:
            self._complain(f"{number} ({name}) is told of {self._lines[number]} times")

    def missing(self) -> list[str]:
        """Those that no line tells of, as far as the logs were read."""
        return [f"{n} ({self._moods[n]})" for n, lines in enumerate(self._lines) if not lines]

    def _complain(self, text: str) -> None:
        if len(self.problems) < _LISTED:
            self.problems.append(text)
