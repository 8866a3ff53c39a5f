"""Every expression of the boards is one that Prometheus takes, and finds something in a real one.

It has scraped the proxy of `tokometer demo`, with the recording rules and a baseline of seconds.
"""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx
import pytest
from shown import FILES, MARKS, NOT_YET, PANELS

from deploy.prometheus.rules import files
from deploy.prometheus.rules.settings import PRESETS, Baseline
from grafana.boards import BOARDS
from grafana.pictures.answers import answered, filled, windows
from grafana.pictures.prometheus import Prometheus, running
from grafana.pictures.scene import Watched
from grafana.reference import metrics, panel_metrics
from proxy.sockets import listen

STEP = 1  # seconds between two points
PATIENCE = 180  # scrapes until all must have been found; it takes about thirty
LOOK_AGAIN = 1.0
STARTS = 60.0  # seconds for the demo to start


def rules(scrape: int) -> str:
    """The recording rules, with windows and a baseline of some scrapes."""
    short = replace(
        PRESETS["live"],
        fast=scrape,
        slow=scrape,
        now=6 * scrape,
        baseline=Baseline(8 * scrape, 2 * scrape, 4 * scrape),
        baseline_cell_streams=0,
        curve_streams=0,
        rate_window=6 * scrape,
        curve_window=12 * scrape,
        knee_window=10 * scrape,
        knee_step=scrape,
    )
    return files.recording(short)


# Panels that may be empty under the demo's traffic, and why.
MAY_BE_EMPTY = {
    "tokometer-streams / Prefill rate, the engine's own": "the simulated engine reports no rates",
    "tokometer-proxy / Refused by the proxy": "the demo's requests are all right",
    "tokometer-streams / What the engine says of itself": "the simulated engine reports no rates",
}


@dataclass(frozen=True)
class Asked:
    """An expression with all that a panel or a mark says about it."""

    place: str
    expr: str
    instant: bool

    @property
    def may_be_empty(self) -> bool:
        return self.place in MAY_BE_EMPTY or not NOT_YET.keys().isdisjoint(metrics(self.expr))


ASKED = [
    Asked(place, target["expr"], target.get("instant", False))
    for place, panel in PANELS.items()
    for target in panel["targets"]
]


@dataclass
class Seen:
    """A Prometheus since `start` (seconds since the epoch)."""

    prometheus: Prometheus
    start: float
    scrape: int  # seconds

    def finds(self, asked: Asked) -> bool:
        """Whether there is a number among the values."""
        now = time.time()
        expr = filled(asked.expr, windows(now - self.start, STEP, self.scrape))
        if asked.instant:
            values = [one["value"] for one in self.prometheus.instant(expr, now)]
        else:
            series = self.prometheus.over_time(expr, self.start, now, STEP)
            values = [value for one in series for value in one["values"]]
        return any(text != "NaN" for _, text in values)


def free_port() -> int:
    with listen("127.0.0.1", 0) as free:
        return int(free.getsockname()[1])


def scrape_interval(url: str) -> int:
    """Seconds that are enough for this machine as busy as it is now: 1 if it is not."""
    deadline = time.monotonic() + STARTS
    while True:
        before = time.monotonic()
        try:
            httpx.get(url, timeout=STARTS, trust_env=False).raise_for_status()
            return math.ceil(4 * (time.monotonic() - before))
        except httpx.TransportError:
            if before > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("prometheus")
    admin = free_port()
    demo = subprocess.Popen(
        [sys.executable, "-m", "proxy", "demo", f"--port={free_port()}", f"--admin-port={admin}"],
        stdout=subprocess.DEVNULL,
    )
    try:
        scrape = scrape_interval(f"http://127.0.0.1:{admin}/metrics")
        file = folder / "rules.yml"
        file.write_text(rules(scrape), "utf-8")
        with running(folder, f"127.0.0.1:{admin}", f"{scrape}s", [file]) as prometheus:
            yield Seen(prometheus, time.time(), scrape)
    finally:
        demo.terminate()
        demo.wait()


def test_every_expression_finds_something(seen: Seen) -> None:
    """Raises where Prometheus does not take one."""
    wanted = [asked for asked in ASKED if not asked.may_be_empty]
    deadline = time.monotonic() + PATIENCE * seen.scrape
    while wanted and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN)
        wanted = [asked for asked in wanted if not seen.finds(asked)]
    assert not wanted, "\n".join(f"{one.place}: {one.expr}" for one in wanted)


def test_pictures_are_drawn_from_answers_to_all_queries(seen: Seen) -> None:
    (board,) = [one.json() for one in BOARDS if one.name == "overview"]
    told = answered(board, Watched(seen.prometheus, seen.start, time.time()))
    drawn = [panel for panel in board["panels"] if panel["type"] != "row"]
    for panel in drawn:
        answers = told["answers"][panel["id"]]
        assert [answer["target"] for answer in answers] == panel["targets"]
    assert any(answer["series"] for panel in drawn for answer in told["answers"][panel["id"]])


@pytest.mark.parametrize("asked", [one for one in ASKED if one.may_be_empty], ids=str)
def test_what_may_be_empty_is_an_expression_all_the_same(seen: Seen, asked: Asked) -> None:
    seen.finds(asked)


@pytest.mark.parametrize("name", MARKS)
def test_a_mark_is_an_expression(seen: Seen, name: str) -> None:
    expr = filled(MARKS[name]["expr"], {})
    seen.prometheus.over_time(expr, seen.start, time.time(), STEP)


@pytest.mark.parametrize("uid", FILES)
def test_variables_list_labels_that_are_there(seen: Seen, uid: str) -> None:
    for variable in FILES[uid]["templating"]["list"][1:]:
        series, label = parts(variable["query"]["query"])
        if NOT_YET.keys().isdisjoint(metrics(series)):
            found = seen.prometheus.instant(filled(series, {}), time.time())
            assert any(one["metric"].get(label) for one in found), variable["name"]


def parts(query: str) -> tuple[str, str]:
    """Series and label of `label_values(series, label)`."""
    series, label = query.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
    return series, label


def test_reasons_for_emptiness_are_of_panels_that_exist() -> None:
    assert MAY_BE_EMPTY.keys() <= PANELS.keys()


def test_no_expression_needs_another_exporter() -> None:
    own = ("tokometer_", "model:tokometer_", "cell:tokometer_")
    for panel in PANELS.values():
        for name in panel_metrics(panel):
            assert name == "up" or name.startswith(own), name


def test_prometheus_words_are_told_where_an_expression_is_none(seen: Seen) -> None:
    with pytest.raises(ValueError, match="parse error"):
        seen.finds(Asked("", "sum(", True))
