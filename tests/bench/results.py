"""What was measured, round by round."""

import statistics
from dataclasses import dataclass, field

from .site import Sample

DISTURBED_SHARE = 0.05  # of the host's processor time, taken by others during a measurement


@dataclass
class Results:
    """Samples of every round: by proxy, then by scene (what was measured)."""

    rounds: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # proxies, and why

    def add(self, name: str, scene: str, sample: Sample) -> None:
        """One more."""
        self.rounds.setdefault(name, {}).setdefault(scene, []).append(sample)

    def get(self, name: str, scene: str, figure: str) -> float | None:
        """The median over the rounds, of those that were not disturbed if there are any."""
        samples = self.rounds.get(name, {}).get(scene, [])
        quiet = [s for s in samples if not disturbed(s)]
        values = [s[figure] for s in quiet or samples if figure in s]
        return statistics.median(values) if values else None

    def medians(self) -> dict[str, dict[str, Sample]]:
        """All of them."""
        return {
            name: {
                scene: {f: v for f in samples[0] if (v := self.get(name, scene, f)) is not None}
                for scene, samples in scenes.items()
            }
            for name, scenes in self.rounds.items()
        }


def disturbed(sample: Sample) -> bool:
    """Whether others took so much of the host that the figures mean little."""
    return sample.get("others_share", 0.0) >= DISTURBED_SHARE
