"""Runs a plan: one proxy after the other, the rounds one after the other."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

from . import accounting, process
from .bodies import Download, Upload, measure_body
from .peers import Peer, tokometer
from .plan import Plan
from .results import DISTURBED_SHARE, Results, disturbed
from .scrape import measure_scrape
from .site import Sample, Site, direct, through
from .small import measure_requests
from .streams import measure_streams
from .truth import measure_truth
from .workers import measure_workers

_LOOK_SECONDS = 0.5
_WAIT_SECONDS = 20.0


class Run:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._patience = plan.patience
        self.results = Results()

    def all(self, peers: Iterable[Peer]) -> Results:
        """Everything. What cannot be measured is in the results' `skipped`."""
        there = [peer for peer in peers if self._is_there(peer)]
        gc.disable()  # the load generator's own pauses are not to be seen
        with direct() as upstream:
            for number in range(self._plan.rounds):
                _say(f"round {number + 1} of {self._plan.rounds}: direct")
                self._round(upstream, None)
                for peer in [p for p in there if p.name not in self.results.skipped]:
                    _say(f"round {number + 1} of {self._plan.rounds}: {peer.name}")
                    self._peer(upstream, peer)
                if any(peer.name == "tokometer" for peer in there):
                    _say("tokometer: truth, scrape, workers")
                    self._own(upstream)
        gc.enable()
        return self.results

    def _is_there(self, peer: Peer) -> bool:
        if peer.missing:
            self.results.skipped[peer.name] = f"not installed: {peer.missing}"
        return not peer.missing

    def _peer(self, upstream: Site, peer: Peer) -> None:
        try:
            with through(peer, upstream) as site:
                if site.ready_seconds is not None:
                    self.results.add(peer.name, "start", {"ready_seconds": site.ready_seconds})
                self._round(site, peer)
        except process.StartError as error:
            self.results.skipped[peer.name] = f"did not start: {error}"

    def _round(self, site: Site, peer: Peer | None) -> None:
        limit = peer.chunks_per_second if peer else None
        passes_all = peer is None or peer.passes_all
        for load in self._plan.streams:
            fits = limit is None or load.streams * load.rate <= limit
            if fits and (passes_all or not load.in_step):
                self._measure(site, load.name, partial(measure_streams, site, load))
        for requests in self._plan.requests:
            if limit is None or (requests.rate and requests.rate <= limit / 4):
                self._measure(site, requests.name, partial(measure_requests, site, requests))
        if passes_all:
            for scene, body in (("body down", Download), ("body up", Upload)):
                size = self._plan.body_bytes
                self._measure(site, scene, partial(measure_body, site, body, size))

    def _own(self, upstream: Site) -> None:
        """What only tokometer is asked."""
        plan = self._plan
        with through(tokometer(log=True), upstream) as site:
            log = site.directory / "requests.jsonl"
            self._measure(site, "truth", partial(measure_truth, site, plan.truth, log))
            for models in plan.scrape_models:
                measure = partial(measure_scrape, site, plan.scrape, models)
                self._measure(site, f"scrape of {models} models", measure)
        for workers in (1, 2):
            with through(tokometer(workers), upstream) as site:
                measure = partial(measure_workers, site, plan.flood, plan.flood_requests, workers)
                self._measure(site, f"workers {workers}", measure)

    def _measure(self, site: Site, scene: str, measure: Callable[[], Sample]) -> None:
        """Measure again what others on the host disturbed, and keep the quietest."""
        if self._plan.only not in scene:
            return
        best: Sample | None = None
        for _ in range(self._plan.tries):
            gc.collect()
            self._wait_for_quiet()
            sample = measure()
            if best is None or sample["others_share"] < best["others_share"]:
                best = sample
            if not disturbed(best):
                break
        if best is not None:
            self.results.add(site.name, scene, best)

    def _wait_for_quiet(self) -> None:
        """As long as there is patience, but not all of it at once."""
        until = time.monotonic() + _WAIT_SECONDS
        while self._patience > 0 and time.monotonic() < until:
            before = accounting.host_seconds()
            time.sleep(_LOOK_SECONDS)
            busy = (accounting.host_seconds() - before) / _LOOK_SECONDS / (os.cpu_count() or 1)
            if busy < DISTURBED_SHARE:
                return
            self._patience -= _LOOK_SECONDS


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
