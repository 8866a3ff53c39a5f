"""A board: panels in rows, and what all boards share: variables, links, marks of events."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import (
    barchart,
    dashboard,
    heatmap,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from deploy.prometheus.rules.alerts import alerts
from deploy.prometheus.rules.settings import PRESETS
from grafana.parts import DATASOURCE
from grafana.queries import OWN, UPSTREAM
from grafana.reference import panel_metrics

Panel = timeseries.Panel | heatmap.Panel | stat.Panel | table.Panel | barchart.Panel
Json = dict[str, Any]

TAG = "tokometer"
# The oldest that the tested range of versions has; newer ones bring it up to date themselves.
SCHEMA_VERSION = 39
# A step of queries for marks, and how far back they look for what was there before.
MARK_STEP = "60s"
LOOK_BACK = "5m"


@dataclass(frozen=True)
class Row:
    """A heading and the panels below it, which flow from left to right over 24 columns."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Board:
    """One dashboard, `name` being the end of its uid and its file's name."""

    name: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[str] = ("job", "upstream", "model", "instance")

    @property
    def uid(self) -> str:
        """What links name it by."""
        return f"{TAG}-{self.name}"

    def json(self) -> Json:
        """The dashboard as Grafana loads it."""
        builder = _empty(self)
        for name in self.variables:
            builder.with_variable(_variable(name))
        for row in self.rows:
            builder.with_row(dashboard.Row(row.title))
            for panel in row.panels:
                builder.with_panel(panel)
        board: Json = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
        return _finished(board)


def _empty(board: Board) -> dashboard.Dashboard:
    return (
        dashboard.Dashboard(f"tokometer / {board.title}")
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("tokometer")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )


# By variable: its heading, the metric whose labels it lists, the choice among its series.
_LISTED = {
    "job": ("Job", "tokometer_build_info", ""),
    "instance": ("Proxy", "tokometer_build_info", 'job=~"$job"'),
    "upstream": ("Upstream", "tokometer_upstream_up", 'job=~"$job"'),
    "model": ("Model", "tokometer_requests_total", 'job=~"$job",upstream=~"$upstream"'),
    "user": ("User", "tokometer_user_requests_total", 'job=~"$job"'),
}


def _variable(name: str) -> dashboard.QueryVariable:
    label, metric, where = _LISTED[name]
    series = f"{metric}{{{where}}}" if where else metric
    query: dict[str, object] = {"query": f"label_values({series}, {name})", "refId": name}
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        # Series that lack the label are part of All.
        .all_value(".*")
    )


def _marks() -> Iterable[Json]:
    info = f"tokometer_upstream_info{{{UPSTREAM}}}"
    # New now, of an upstream that was there before: a first start is no deploy.
    yield _mark(
        "Engine versions",
        "purple",
        f"group by (upstream, engine, version) ({info}) "
        f"unless group by (upstream, engine, version) ({info} offset {LOOK_BACK}) "
        f"and on (upstream) group by (upstream) ({info} offset {LOOK_BACK})",
        "{{upstream}}: {{engine}} {{version}}",
    )
    build = f"tokometer_build_info{{{OWN}}}"
    yield _mark(
        "Proxy versions",
        "blue",
        f"group by (job, version) ({build}) "
        f"unless group by (job, version) ({build} offset {LOOK_BACK}) "
        f"and on (job) group by (job) ({build} offset {LOOK_BACK})",
        "tokometer {{version}}",
    )
    yield _mark(
        "Alerts",
        "red",
        "group by (alertname, severity, upstream, model)"
        f' (ALERTS{{alertstate="firing",job=~"$job|",alertname=~"{_alert_names()}"}})',
        "{{alertname}} {{upstream}} {{model}}",
    )


def _alert_names() -> str:
    return "|".join(sorted({alert.name for alert in alerts(PRESETS["week"])}))


def _mark(name: str, color: str, expr: str, text: str) -> Json:
    return {
        "name": name,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "step": MARK_STEP,
        "titleFormat": name,
        "textFormat": text,
        "useValueForTime": False,
    }


def _finished(board: Json) -> Json:
    """What the builder leaves open, or gets wrong for this schema."""
    board |= {"id": None, "schemaVersion": SCHEMA_VERSION, "version": 1}
    board["annotations"] = {"list": list(_marks())}
    for number, panel in enumerate(board["panels"], 1):
        panel["id"] = number
        if panel["type"] != "row":
            panel["description"] += f"\n\nFrom {', '.join(panel_metrics(panel))}."
    for variable in board["templating"]["list"]:
        variable["current"] = {}
        for of_intervals in ("auto", "auto_min", "auto_count"):
            del variable[of_intervals]
    return board
