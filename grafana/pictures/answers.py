"""What a Prometheus answers to the queries of a board, as the pictures are drawn from it."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from grafana.pictures.scene import SCRAPE, Watched

Json = dict[str, Any]
WIDTH = 300  # points that a graph has room for


def filled(expr: str, values: Mapping[str, str]) -> str:
    """`expr` with the values of its variables; what has none is chosen freely: All."""

    def value(found: re.Match[str]) -> str:
        # $1 is no variable of ours but a part of a regular expression.
        return found[0] if found[1].isdigit() else values.get(found[1], ".*")

    return re.sub(r"\$(\w+)", value, expr)


def windows(seconds: float, step: float, scrape: float) -> dict[str, str]:
    """The variables that Grafana sets: it takes at least four scrapes for a rate."""
    interval = max(4 * scrape, step + scrape)
    return {"__rate_interval": f"{math.ceil(interval)}s", "__range": f"{math.ceil(seconds)}s"}


def answered(board: Json, watched: Watched) -> Json:
    """The board with the answers to all its queries. Raises ValueError with Prometheus's words."""
    seconds = watched.end - watched.start
    step = max(SCRAPE, round(seconds / WIDTH))
    asking = _Asking(watched, step, windows(seconds, step, SCRAPE))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    return {
        "board": board,
        "start": asking.start,
        "end": asking.end,
        "step": step,
        "answers": {panel["id"]: list(asking.panel(panel)) for panel in panels},
        "marks": [mark for query in board["annotations"]["list"] for mark in asking.marks(query)],
    }


class _Asking:
    def __init__(self, watched: Watched, step: int, values: dict[str, str]) -> None:
        self._prometheus = watched.prometheus
        self._step = step
        self._values = values
        # As Grafana does it: so that the points stay where they are from one refresh to the next.
        self.start = math.ceil(watched.start / step) * step
        self.end = math.floor(watched.end / step) * step

    def panel(self, panel: Json) -> Iterable[Json]:
        for target in panel["targets"]:
            expr = filled(target["expr"], self._values)
            yield {"target": target, "series": self._series(expr, target.get("instant", False))} | (
                {"exemplars": self._prometheus.exemplars(expr, self.start, self.end)}
                if target.get("exemplar")
                else {}
            )

    def _series(self, expr: str, instant: bool) -> list[Any]:
        if instant:
            return self._prometheus.instant(expr, self.end)
        return self._prometheus.over_time(expr, self.start, self.end, self._step)

    def marks(self, query: Json) -> Iterable[Json]:
        """Where a series of the query begins and ends."""
        expr, step = filled(query["expr"], self._values), 5
        for series in self._prometheus.over_time(expr, self.start, self.end, step):
            times = [time for time, _ in series["values"]]
            text = _legend(query["textFormat"], series["metric"])
            yield {
                "name": query["name"],
                "color": query["iconColor"],
                "text": text,
                "from": times[0],
                "to": times[-1],
            }


def _legend(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], ""), text)
