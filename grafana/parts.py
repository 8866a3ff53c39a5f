"""What panels of every kind are made of: queries, thresholds, legends, single properties."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TOKENS_PER_SECOND = "suffix:tok/s"
PER_SECOND = "suffix:/s"
SECONDS = "s"
SHARE = "percentunit"
COUNT = "short"
NO_TRAFFIC = "No traffic"

Steps = Sequence[tuple[float | None, str]]


@dataclass(frozen=True)
class Query:
    """An expression, and how its series are called in the legend."""

    expr: str
    legend: str = ""
    dashed: bool = False  # told apart from the other queries' lines without colour
    exemplars: bool = False


def thresholds(steps: Steps = ()) -> dashboard.ThresholdsConfig:
    """Colours from a value on; the first has none. Grafana's own default is red above 80."""
    return (
        dashboard.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value, color) for value, color in steps or [(None, "text")]])
    )


def dashed_lines() -> common.GraphThresholdsStyleConfig:
    """Thresholds are lines in the graph."""
    return common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)


def color(mode: models.FieldColorModeId) -> dashboard.FieldColor:
    """Where a series has its colour from."""
    return dashboard.FieldColor().mode(mode)


def legend() -> common.VizLegendOptions:
    """Names below the graph."""
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
        .calcs([])
    )


def all_at_once() -> common.VizTooltipOptions:
    """The tooltip tells all series of a moment."""
    return common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)


def ref(number: int) -> str:
    """The name of a panel's query: A, B, C ..."""
    return chr(ord("A") + number)


def over_time(query: Query, number: int = 0) -> prometheus.Dataquery:
    """A query for the whole time shown."""
    return (
        prometheus.Dataquery()
        .expr(query.expr)
        .legend_format(query.legend)
        .ref_id(ref(number))
        .range()
        .exemplar(query.exemplars)
    )


def as_table(expr: str, number: int = 0) -> prometheus.Dataquery:
    """A query for the end of the time shown; labels are columns."""
    return (
        prometheus.Dataquery()
        .expr(expr)
        .ref_id(ref(number))
        .instant()
        .format(PromQueryFormat.TABLE)
    )


def setting(name: str, value: Any) -> models.DynamicConfigValue:
    """One property of an override."""
    return models.DynamicConfigValue(name, value)
