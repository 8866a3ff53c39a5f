"""The boards as they are written, and the metrics that there are for them to show."""

import json
import re

from deploy.prometheus.rules.files import recording_groups
from deploy.prometheus.rules.settings import PRESETS
from grafana.build import HERE
from grafana.reference import expressions
from proxy.metrics import Metrics

# Boards show them already, the proxy does not export them yet: name and labels.
NOT_YET: dict[str, str] = {}
METRICS = {family.name: family for family in Metrics({})._families}
RECORDED = {rule.name for group in recording_groups(PRESETS["week"]) for rule in group.rules}


FILES = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("dashboards/*"))
}
PANELS = {
    f"{uid} / {panel['title']}": panel
    for uid, board in FILES.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}
MARKS = {
    f"{uid} / {mark['name']}": mark
    for uid, board in FILES.items()
    for mark in board["annotations"]["list"]
}
EXPRESSIONS = sorted(
    {expr for one in (*PANELS.values(), *MARKS.values()) for expr in expressions(one)}
)


def base(series: str) -> str:
    """The metric of a series: a histogram's without _bucket, _count or _sum."""
    return re.sub(r"_(bucket|count|sum)$", "", series)
