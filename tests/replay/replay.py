"""One replay: a seed's traffic of all scenarios in one Prometheus, and when the alerts fired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .export import Export, write
from .firing import Episode, episodes
from .prometheus import Api, Store
from .rules import Alert, Rules, as_file
from .scenarios import Scenario

_MIDNIGHT = 1_767_225_600  # 2026-01-01 in UTC; blocks and evaluations are aligned to it
Firing = Mapping[tuple[str, str], Sequence[Episode]]  # by scenario and alert; seconds of traffic


@dataclass(frozen=True)
class Span:
    """Minutes of traffic."""

    before: int  # the change
    after: int

    @property
    def seconds(self) -> int:
        return (self.before + self.after) * 60


def fill(store: Store, scenarios: Sequence[Scenario], seed: int, span: Span) -> None:
    """Put what a proxy in front of each scenario's traffic would have exported into the store."""
    exports = []
    for scenario in scenarios:
        minutes = scenario.traffic(seed, span.before, span.after).minutes()
        exports.append(Export(scenario.name, minutes, _MIDNIGHT))
    for file in write(exports, store.folder):
        store.add(file)
        file.unlink()


def evaluate(store: Store, rules: Rules, span: Span) -> Firing:
    """When each of the alerts fired in each scenario."""
    # Prometheus takes the moment of evaluation from the file's path and the group's name.
    file = store.folder / "rules.yml"
    for level in rules.levels():
        file.write_text(as_file(level), encoding="utf-8")
        store.record(file, _MIDNIGHT, _MIDNIGHT + span.seconds)
    with store.serving() as api:
        return {
            (scenario, alert.name): found
            for alert in rules.alerts
            for scenario, found in _fired(api, alert, span).items()
        }


def _fired(api: Api, alert: Alert, span: Span) -> Mapping[str, Sequence[Episode]]:
    """Episodes of an alert by upstream, which is the scenario's name here."""
    held: dict[str, set[float]] = {}
    end = _MIDNIGHT + span.seconds
    for labels, points in api.samples(alert.record.name, end, span.seconds):
        held.setdefault(labels["upstream"], set()).update(at - _MIDNIGHT for at, _ in points)
    return {upstream: episodes(alert, sorted(times)) for upstream, times in held.items()}
