"""Tables, and bars by class: panels of the values at one moment, made fit by transformations."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import barchart, common, table
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from grafana.parts import (
    DATASOURCE,
    NO_TRAFFIC,
    Steps,
    all_at_once,
    as_table,
    color,
    dashed_lines,
    legend,
    ref,
    setting,
    thresholds,
)

NARROWEST = 70  # pixels of a column
# What has no value is neither good nor bad.
_NOTHING = models.SpecialValueMap(
    models.DashboardSpecialValueMapOptions(
        models.SpecialValueMatch.NULL_AND_NAN, models.ValueMappingResult("-", "text")
    )
)


@dataclass(frozen=True)
class Column:
    """A column of a table: the values of a query, or a label."""

    title: str
    source: str  # an expression, or the name of the label
    unit: str = ""
    decimals: int | None = None
    good_or_bad: Steps = ()

    def properties(self) -> list[models.DynamicConfigValue]:
        """What makes the column different from others."""
        plain = {"unit": self.unit or None, "decimals": self.decimals}
        found = [setting(name, value) for name, value in plain.items() if value is not None]
        if self.good_or_bad:
            found += [
                setting("thresholds", thresholds(self.good_or_bad).build()),
                setting("color", {"mode": "thresholds"}),
                setting("custom.cellOptions", {"type": "color-text"}),
                setting("mappings", [_NOTHING]),
            ]
        return found


def rows(
    title: str,
    about: str,
    labels: Sequence[Column],
    columns: Sequence[Column],
    *,
    span: int = 24,
    height: int = 7,
    sort: str | None = None,
    empty: str = NO_TRAFFIC,
) -> table.Panel:
    """A table: a row for each combination of `labels`, a column for each query.

    Args:
        sort: the column by which rows are sorted, the greatest first.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(about)
        .span(span)
        .height(height)
        .datasource(DATASOURCE)
        .no_value(empty)
        .thresholds(thresholds())
        .min_width(NARROWEST)
        .cell_height(kinds.TableCellHeight.SM)
        .show_header(True)
        .transformations(_joined(labels, columns))
    )
    for number, column in enumerate(columns):
        panel.with_target(as_table(column.source, number))
    for column in (*labels, *columns):
        if properties := column.properties():
            panel.override_by_name(column.title, properties)
    if sort is not None:
        panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(True)])
    return panel


def _joined(
    labels: Sequence[Column], columns: Sequence[Column]
) -> list[models.DataTransformerConfig]:
    # One query's values are in a field Value, those of several in Value #A, Value #B ...
    several = [f"Value #{ref(number)}" for number in range(len(columns))]
    values = several if len(columns) > 1 else ["Value"]
    names = [*(label.source for label in labels), *values]
    titles = [column.title for column in (*labels, *columns)]
    organized = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": dict(zip(names, titles, strict=True)),
    }
    return [
        models.DataTransformerConfig("merge", options={}),
        models.DataTransformerConfig("organize", options=organized),
    ]


def bars(
    title: str,
    about: str,
    unit: str,
    axis: str,
    expr: str,
    *,
    span: int = 12,
    height: int = 9,
    marks: Steps = (),
    empty: str = NO_TRAFFIC,
) -> barchart.Panel:
    """A bar of each model for each value of the label `from`: see `queries.by_class`.

    Args:
        axis: what the numbers below the bars are.
        marks: thresholds that are drawn as lines.
    """
    panel = (
        barchart.Panel()
        .title(title)
        .description(about)
        .unit(unit)
        .min(0)
        .span(span)
        .height(height)
        .datasource(DATASOURCE)
        .no_value(empty)
        # By name: queries of one moment come in any order.
        .color_scheme(color(models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
        .thresholds(thresholds(marks))
        .orientation(kinds.VizOrientation.VERTICAL)
        .x_field(axis)
        .show_value(kinds.VisibilityMode.AUTO)
        .stacking(kinds.StackingMode.NONE)
        .group_width(0.8)
        .bar_width(0.9)
        .fill_opacity(70)
        .legend(legend())
        .tooltip(all_at_once())
        .transformations(_matrix(axis))
        .with_target(as_table(expr))
    )
    return panel.thresholds_style(dashed_lines()) if marks else panel


def _matrix(axis: str) -> list[models.DataTransformerConfig]:
    """A row for each class, in the order of numbers, and a field for each model."""
    first = "from\\model"  # as the first transformation calls the field of the rows' names
    matrix = {
        "columnField": "model",
        "rowField": "from",
        "valueField": "Value",
        "emptyValue": "null",
    }
    return [
        models.DataTransformerConfig("groupingToMatrix", options=matrix),
        _as(first, "number"),
        models.DataTransformerConfig("sortBy", options={"fields": {}, "sort": [{"field": first}]}),
        # Bars stand above names.
        _as(first, "string"),
        models.DataTransformerConfig("organize", options={"renameByName": {first: axis}}),
    ]


def _as(field: str, kind: str) -> models.DataTransformerConfig:
    conversion = {"targetField": field, "destinationType": kind}
    return models.DataTransformerConfig(
        "convertFieldType", options={"fields": {}, "conversions": [conversion]}
    )
