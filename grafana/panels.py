"""Graphs and numbers in the house's style: what all of a kind have in common is said here once."""

from collections.abc import Mapping
from types import MappingProxyType

from grafana_foundation_sdk.builders import common, heatmap, stat, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.parts import (
    COUNT,
    DATASOURCE,
    NO_TRAFFIC,
    Query,
    Steps,
    all_at_once,
    color,
    dashed_lines,
    legend,
    over_time,
    ref,
    setting,
    thresholds,
)

DASH = {"fill": "dash", "dash": [8, 6]}  # pixels: line, gap


def lines(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    span: int = 8,
    height: int = 8,
    marks: Steps = (),
    stacked: bool = False,
    least: float | None = 0,
    most: float | None = None,
    empty: str = NO_TRAFFIC,
    colors: Mapping[str, str] = MappingProxyType({}),
) -> timeseries.Panel:
    """Values over time.

    Args:
        colors: by name in the legend, of series whose names mean something good or bad.
        marks: thresholds (from, colour) that are drawn as lines, the first without a bound.
        least: where the axis begins; None leaves that to the values.
    """
    panel = _lines(title, about, unit, empty, stacked).span(span).height(height)
    panel.thresholds(thresholds(marks))
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    if marks:
        panel.thresholds_style(dashed_lines())
    for number, query in enumerate(queries):
        panel.with_target(over_time(query, number))
        if query.dashed:
            panel.override_by_query(ref(number), [setting("custom.lineStyle", DASH)])
    for name, shade in colors.items():
        panel.override_by_name(name, [setting("color", {"mode": "fixed", "fixedColor": shade})])
    return panel


def _lines(title: str, about: str, unit: str, empty: str, stacked: bool) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .unit(unit)
        .datasource(DATASOURCE)
        .no_value(empty)
        .line_width(1 if stacked else 2)
        .fill_opacity(40 if stacked else 0)
        .show_points(kinds.VisibilityMode.AUTO)
        .point_size(5)
        .color_scheme(color(models.FieldColorModeId.PALETTE_CLASSIC))
        .tooltip(all_at_once())
        .legend(legend())
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
    return panel


def heat_map(
    title: str, about: str, unit: str, expr: str, span: int = 8, height: int = 8
) -> heatmap.Panel:
    """How many observations fell into which bucket, over time; `unit` is that of the buckets."""
    target = over_time(Query(expr, "{{le}}")).format(PromQueryFormat.HEATMAP)
    axis = heatmap.YAxisConfig().unit(unit).axis_placement(kinds.AxisPlacement.LEFT)
    return (
        heatmap.Panel()
        .title(title)
        .description(about)
        .unit(COUNT)
        .span(span)
        .height(height)
        .datasource(DATASOURCE)
        .no_value(NO_TRAFFIC)
        .calculate(False)
        .cell_gap(0)
        .color(_warmer_is_more())
        # A bucket without an observation has no colour, instead of the palest one.
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .y_axis(axis.reverse(False))
        .show_y_histogram()
        .show_color_scale(True)
        .mode(kinds.TooltipDisplayMode.SINGLE)
        .show_legend()
        .with_target(target)
    )


def _warmer_is_more() -> heatmap.HeatmapColorOptions:
    return (
        heatmap.HeatmapColorOptions()
        .mode(heat.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .scale(heat.HeatmapColorScale.EXPONENTIAL)
        .exponent(0.5)
        .steps(64)
        .reverse(False)
    )


def number(
    title: str,
    about: str,
    unit: str,
    expr: str,
    *,
    span: int = 4,
    height: int = 4,
    decimals: int | None = None,
    good_or_bad: Steps = (),
    texts: dict[str, str] | None = None,
    course: bool = False,
    empty: str = NO_TRAFFIC,
) -> stat.Panel:
    """The latest value, big.

    Args:
        good_or_bad: thresholds that colour it; without them the value has no colour.
        course: whether its course is drawn below it.
        texts: what is shown for a value, for those that are words.
    """
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .unit(unit)
        .span(span)
        .height(height)
        .datasource(DATASOURCE)
        .no_value(empty)
        .thresholds(thresholds(good_or_bad))
        .color_scheme(color(models.FieldColorModeId.THRESHOLDS))
        .color_mode(kinds.BigValueColorMode.VALUE)
        .graph_mode(kinds.BigValueGraphMode.AREA if course else kinds.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .with_target(over_time(Query(expr)))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if texts:
        panel.mappings([_words(texts)])
    return panel


def _words(texts: dict[str, str]) -> models.ValueMap:
    return models.ValueMap(
        {value: models.ValueMappingResult(text) for value, text in texts.items()}
    )
