"""What happens to the traffic, and what an alert should make of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from .traffic import Change, Demand, Server, Traffic

CHANGE_HOUR = 26  # of the traffic that the shorter baseline needs
HOURS_AFTER = 8
PHASES = ("decode", "prefill")


@dataclass(frozen=True)
class Scenario:
    """One kind of day.

    Args:
        slow: the phase that becomes slower, `decode` or `prefill`, or none.
        within: minutes in which an alert on that phase has to fire; None where a miss is no fault.
    """

    name: str
    change: Change = field(default_factory=Change)
    demand: Demand = field(default_factory=Demand)
    slow: str | None = None
    within: float | None = None

    def traffic(self, seed: int, before: int, after: int) -> Traffic:
        """Its streams: `before` minutes as ever, and `after` minutes with the change."""
        key = f"{self.name}/{seed}"
        return Traffic(key, Server(), self.demand, self.change, before, before + after)


SPARSE = Demand(per_minute=0.6)
LONGER, BUSIER = {"prompts": 5.0}, {"load": 2.2}
QUIET = (
    Scenario("steady"),
    Scenario("prompts 5 x longer", Change(**LONGER)),
    Scenario("prompts 5 x shorter", Change(prompts=0.2)),
    Scenario("load 2.2 x", Change(**BUSIER)),
    Scenario("load 2.2 x and prompts 5 x longer", Change(**LONGER, **BUSIER)),
    Scenario("0.6 requests a minute", demand=SPARSE),
)


def _regressions(phase: str) -> Iterator[Scenario]:
    def slow(by: float, **others: float) -> Change:
        return Change(**{phase: by, **others})

    yield Scenario(f"{phase} +25 %", slow(1.25), slow=phase, within=25)
    yield Scenario(
        f"{phase} +25 %, prompts 5 x shorter", slow(1.25, prompts=0.2), slow=phase, within=25
    )
    yield Scenario(f"{phase} +25 %, load 2.2 x", slow(1.25, **BUSIER), slow=phase)
    yield Scenario(f"{phase} +50 %", slow(1.5), slow=phase, within=15)
    for more, within in ((1.25, None), (1.5, 50)):
        name = f"{phase} +{more - 1:.0%}, 0.6 requests a minute".replace("%", " %")
        yield Scenario(name, slow(more), demand=SPARSE, slow=phase, within=within)


SCENARIOS = (*QUIET, *(one for phase in PHASES for one in _regressions(phase)))
