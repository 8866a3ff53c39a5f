"""What is measured, in which order, and how often."""

import gc
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from . import process
from .bodies import Download, Upload, measure_body
from .load import StreamLoad
from .peers import Peer, tokometer
from .scrape import measure_scrape
from .site import Sample, Site, direct, through
from .small import RequestLoad, measure_requests
from .streams import measure_streams
from .truth import measure_truth
from .workers import measure_workers

DISTURBED_SHARE = 0.15  # of the host's processor time taken by others in a measurement


@dataclass(frozen=True)
class Plan:
    """Loads of one run."""

    streams: Sequence[StreamLoad]
    requests: Sequence[RequestLoad]
    body_bytes: int
    truth: StreamLoad
    scrape: StreamLoad
    flood: StreamLoad
    flood_requests: RequestLoad
    rounds: int
    tries: int  # of a measurement that others on the host disturb


def full() -> Plan:
    """About twenty minutes."""
    carried = 4000  # chunks a second, whatever the number of streams
    return Plan(
        streams=[
            StreamLoad(1, 40, window=5, ramp=0),
            StreamLoad(5, 40, window=5, ramp=0.5),
            *(StreamLoad(n, carried / n, window=5, ramp=n / 250 + 0.6) for n in (100, 500, 1000)),
            StreamLoad(100, 40, window=5, ramp=1, in_step=True),
        ],
        requests=[
            RequestLoad(16, 500, 4, kept=True),
            RequestLoad(16, 500, 4, kept=False),
            RequestLoad(4, 20, 4, kept=True),
            RequestLoad(16, None, 3, kept=True),
            RequestLoad(16, None, 3, kept=False),
        ],
        body_bytes=10**9,
        truth=StreamLoad(100, 40, window=10, ramp=1),
        scrape=StreamLoad(100, 40, window=10, ramp=1),
        flood=StreamLoad(400, 100, window=4, ramp=1),
        flood_requests=RequestLoad(64, None, 3, kept=True),
        rounds=3,
        tries=3,
    )


def quick() -> Plan:
    """Less than two minutes; the figures are coarse."""
    return Plan(
        streams=[
            StreamLoad(5, 40, window=1, ramp=0.1),
            StreamLoad(100, 40, window=1.5, ramp=0.4),
            StreamLoad(1000, 4, window=1.5, ramp=2),
        ],
        requests=[RequestLoad(16, 500, 1, kept=True), RequestLoad(16, 500, 1, kept=False)],
        body_bytes=10**9 // 2,
        truth=StreamLoad(100, 40, window=2, ramp=0.5),
        scrape=StreamLoad(100, 40, window=2.5, ramp=0.5),
        flood=StreamLoad(200, 100, window=1, ramp=0.3),
        flood_requests=RequestLoad(64, None, 1, kept=True),
        rounds=1,
        tries=1,
    )


@dataclass
class Results:
    """Samples of every round: by proxy, then by what was measured."""

    rounds: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # proxies, and why

    def add(self, name: str, scene: str, sample: Sample) -> None:
        """One more."""
        self.rounds.setdefault(name, {}).setdefault(scene, []).append(sample)

    def get(self, name: str, scene: str, figure: str) -> float | None:
        """The median over the rounds, of those that were not disturbed if there are any."""
        samples = self.rounds.get(name, {}).get(scene, [])
        quiet = [s for s in samples if s.get("others_share", 0.0) < DISTURBED_SHARE]
        values = [s[figure] for s in quiet or samples if figure in s]
        return statistics.median(values) if values else None


def run(plan: Plan, peers: Iterable[Peer]) -> Results:
    """Measure, one proxy after the other, the rounds one after the other."""
    results = Results()
    there = []
    for peer in peers:
        if peer.missing:
            results.skipped[peer.name] = f"not installed: {peer.missing}"
        else:
            there.append(peer)
    with direct() as upstream:
        for number in range(plan.rounds):
            _say(f"round {number + 1} of {plan.rounds}: direct")
            _round(plan, upstream, results, None)
            for peer in [p for p in there if p.name not in results.skipped]:
                _say(f"round {number + 1} of {plan.rounds}: {peer.name}")
                _one(plan, upstream, results, peer)
            if any(peer.name == "tokometer" for peer in there):
                _own(plan, upstream, results)
    return results


def _one(plan: Plan, upstream: Site, results: Results, peer: Peer) -> None:
    try:
        with through(peer, upstream) as site:
            if site.ready_seconds is not None:
                results.add(peer.name, "start", {"ready_seconds": site.ready_seconds})
            _round(plan, site, results, peer)
    except process.StartError as error:
        results.skipped[peer.name] = f"did not start: {error}"


def _round(plan: Plan, site: Site, results: Results, peer: Peer | None) -> None:
    limit = peer.chunks_per_second if peer else None
    for load in plan.streams:
        fits = limit is None or load.streams * load.rate <= limit
        if fits and (peer is None or peer.passes_all or not load.in_step):
            _measured(plan, results, site, load.name, lambda load=load: measure_streams(site, load))
    for requests in plan.requests:
        if limit is None or (requests.rate and requests.rate <= limit / 4):
            _measured(
                plan,
                results,
                site,
                requests.name,
                lambda load=requests: measure_requests(site, load),
            )
    if peer is None or peer.passes_all:
        size = plan.body_bytes
        results.add(site.name, "body down", measure_body(site, Download, size))
        results.add(site.name, "body up", measure_body(site, Upload, size))


def _measured(
    plan: Plan, results: Results, site: Site, scene: str, measure: Callable[[], Sample]
) -> None:
    """Measure again what others on the host disturbed; keep the quietest."""
    best: Sample | None = None
    for _ in range(plan.tries):
        gc.collect()
        sample = measure()
        if best is None or sample["others_share"] < best["others_share"]:
            best = sample
        if best["others_share"] < DISTURBED_SHARE:
            break
    if best is not None:
        results.add(site.name, scene, best)


def _own(plan: Plan, upstream: Site, results: Results) -> None:
    """What only tokometer is asked."""
    _say("tokometer: truth, scrape, workers")
    with through(tokometer(log=True), upstream) as site:
        log = site.directory / "requests.jsonl"
        _measured(plan, results, site, "truth", lambda: measure_truth(site, plan.truth, log))
        _measured(plan, results, site, "scrape", lambda: measure_scrape(site, plan.scrape))
    for workers in (1, 2):
        with through(tokometer(workers), upstream) as site:
            sample = measure_workers(site, plan.flood, plan.flood_requests, workers)
            results.add("tokometer", f"workers {workers}", sample)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
