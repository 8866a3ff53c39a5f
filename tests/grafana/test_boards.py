"""The boards keep the house's conventions, and show every metric there is."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shown import FILES, MARKS, METRICS, NOT_YET, PANELS, RECORDED

from deploy.prometheus.rules.files import recording_groups
from deploy.prometheus.rules.settings import PRESETS
from grafana.boards import BOARDS
from grafana.build import HERE, main, stale
from grafana.reference import expressions, panel_metrics
from proxy.series import Histogram

Json = dict[str, Any]
# Metrics that no panel shows, and why.
INDEX = "of the index: its recording rules read it, and boards show those"
ABSENT = {
    "tokometer_time_per_output_token_seconds": "decode rate is shown, its inverse",
    "tokometer_cell_tpot_log_sumsq_total": INDEX,
    "tokometer_cell_ttft_log_sumsq_total": INDEX,
    "tokometer_ttft_size_sum_total": INDEX,
    "tokometer_ttft_size_sumsq_total": INDEX,
    "tokometer_ttft_size_log_sum_total": INDEX,
    "tokometer_ttft_crowd_sum_total": INDEX,
    "tokometer_tpot_size_sum_total": INDEX,
    "tokometer_tpot_size_sumsq_total": INDEX,
    "tokometer_tpot_size_log_sum_total": INDEX,
}

every_board = pytest.mark.parametrize("uid", FILES)
every_panel = pytest.mark.parametrize("name", PANELS)


def test_files_are_what_the_description_makes_of_them() -> None:
    assert stale() == [], "run: python -m grafana.build"


def test_check_tells_of_a_board_that_is_out_of_date(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--check"]) == 0
    monkeypatch.setattr("grafana.build.BOARDS", BOARDS[1:])
    assert main(["--check"]) == 1
    assert "tokometer-overview.json" in capsys.readouterr().err


def test_an_unknown_flag_is_refused() -> None:
    assert main(["--chekc"]) == 2


def test_uids_and_files_are_those_that_links_use() -> None:
    names = ("overview", "regression", "streams", "capacity", "users", "proxy")
    assert {board["uid"] for board in FILES.values()} == {f"tokometer-{name}" for name in names}
    assert all(board["uid"] == uid for uid, board in FILES.items())


@every_board
def test_a_board_loads_in_old_and_new_versions_of_grafana(uid: str) -> None:
    board = FILES[uid]
    assert 39 <= board["schemaVersion"] <= 41
    assert board["id"] is None
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


@every_board
def test_a_board_has_its_variables_and_nothing_chosen(uid: str) -> None:
    source, *queries = FILES[uid]["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    wanted = {"job", "instance"} | ({"user"} if "users" in uid else {"upstream", "model"})
    assert {query["name"] for query in queries} == wanted
    assert all(variable["current"] == {} for variable in (source, *queries))
    for query in queries:
        assert query["multi"] and query["includeAll"] and query["allValue"] == ".*"


@every_board
def test_boards_are_linked_with_variables_and_time(uid: str) -> None:
    board = FILES[uid]
    (link,) = board["links"]
    assert link["tags"] == board["tags"] == ["tokometer"]
    assert link["includeVars"] and link["keepTime"]


@every_board
def test_deploys_and_alerts_are_marked(uid: str) -> None:
    marks = FILES[uid]["annotations"]["list"]
    text = "\n".join(mark["expr"] for mark in marks)
    assert "tokometer_upstream_info" in text
    assert "DecodeRegression" in text
    assert all(mark["enable"] for mark in marks)


def sources(node: Any) -> Iterator[Any]:
    """Every data source that is named anywhere."""
    if isinstance(node, dict):
        yield from [node["datasource"]] if "datasource" in node else []
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from sources(child)


@every_board
def test_no_data_source_is_named_but_the_variable(uid: str) -> None:
    found = list(sources(FILES[uid]))
    assert found
    assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in found)


@every_board
def test_panels_fill_the_grid_and_do_not_overlap(uid: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in FILES[uid]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        rows, columns = range(at["y"], at["y"] + at["h"]), range(at["x"], at["x"] + at["w"])
        cells = set(itertools.product(rows, columns))
        assert not cells & taken, panel["title"]
        taken |= cells


@every_board
def test_titles_of_panels_are_unique_in_their_board(uid: str) -> None:
    titles = [panel["title"] for panel in FILES[uid]["panels"] if panel["type"] != "row"]
    assert len(set(titles)) == len(titles)


@every_panel
def test_a_panel_says_what_it_shows_in_which_unit(name: str) -> None:
    panel = PANELS[name]
    about, made_of = panel["description"].split("\n\n")
    assert len(about) > 15
    assert about.endswith(".")
    assert made_of == f"From {', '.join(panel_metrics(panel))}."
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["noValue"], "what is shown where there is nothing?"
    if panel["type"] == "table":
        values = len(panel["targets"])
        units = [one for one in properties(panel) if one["id"] == "unit"]
        assert len(units) == values, "each column of values has its unit"
    else:
        assert defaults["unit"]


def properties(panel: Json) -> Iterator[Json]:
    for override in panel["fieldConfig"]["overrides"]:
        yield from override["properties"]


@every_panel
def test_units_are_ones_that_grafana_knows(name: str) -> None:
    panel = PANELS[name]
    units = [one["value"] for one in properties(panel) if one["id"] == "unit"]
    units += filter(None, [panel["fieldConfig"]["defaults"].get("unit")])
    for unit in units:
        assert unit in {"s", "percentunit", "short", "none"} or re.fullmatch(r"suffix:\S+", unit)


@every_panel
def test_series_in_a_graph_have_names(name: str) -> None:
    panel = PANELS[name]
    if panel["type"] in ("timeseries", "heatmap"):
        assert all(target["legendFormat"] for target in panel["targets"])


@every_panel
def test_a_second_quantile_is_told_apart_without_colour(name: str) -> None:
    panel = PANELS[name]
    of_quantiles = [one for one in panel["targets"] if "histogram_quantile" in one["expr"]]
    if panel["type"] == "timeseries" and len(of_quantiles) > 1:
        assert any(one["id"] == "custom.lineStyle" for one in properties(panel))


def test_every_quantile_of_a_board_has_a_heatmap_beside_it() -> None:
    """Of what users feel most: two kinds of streams look like one in a quantile."""
    for metric in (
        "tokometer_time_to_first_token_seconds",
        "tokometer_decode_tokens_per_second",
        "tokometer_chunk_gap_seconds",
        "tokometer_time_to_first_visible_output_seconds",
        "tokometer_prompt_tokens",
        "tokometer_output_tokens",
        "tokometer_overhead_seconds",
    ):
        shown = {panel["type"] for panel in PANELS.values() if metric in panel_metrics(panel)}
        assert {"timeseries", "heatmap"} <= shown, metric


def test_ttft_has_exemplars() -> None:
    (target, _) = PANELS["tokometer-overview / TTFT"]["targets"]
    assert target["exemplar"] is True


@every_panel
def test_every_metric_exists(name: str) -> None:
    for metric in panel_metrics(PANELS[name]):
        known = METRICS.keys() | RECORDED | NOT_YET.keys() | {"up"}
        assert metric in known, f"{metric}: is it misspelled?"


def test_marks_are_made_of_metrics_that_exist() -> None:
    for mark in MARKS.values():
        assert set(panel_metrics(mark)) <= METRICS.keys() | {"ALERTS"}


def test_every_metric_is_on_a_panel_or_left_out_on_purpose() -> None:
    shown = {metric for panel in PANELS.values() for metric in panel_metrics(panel)}
    assert METRICS.keys() - shown == ABSENT.keys()


@pytest.mark.parametrize("name", [name for name, why in ABSENT.items() if why == INDEX])
def test_what_is_left_to_recording_rules_is_read_by_one(name: str) -> None:
    groups = recording_groups(PRESETS["week"])
    assert any(name in rule.expression for group in groups for rule in group.rules)


def test_what_is_not_there_yet_is_not_there_yet() -> None:
    assert not NOT_YET.keys() & METRICS.keys(), "take them out of NOT_YET: they exist now"


@every_panel
def test_rows_of_a_heatmap_are_bounds_of_its_histogram(name: str) -> None:
    panel = PANELS[name]
    if panel["type"] != "heatmap":
        return
    (metric,), (expr,) = panel_metrics(panel), expressions(panel)
    shown = re.search(r'le=~"([^"]*)"', expr)
    assert shown
    *bounds, last = shown[1].split("|")
    assert last == ".Inf"
    histogram = METRICS.get(metric)
    if isinstance(histogram, Histogram):
        assert {float(bound) for bound in bounds} <= set(histogram.bounds)
    else:
        assert metric in NOT_YET


@every_panel
def test_colours_of_values_are_thresholds_or_absent(name: str) -> None:
    """Grafana's own default would call 80 seconds red and 79 green."""
    steps = PANELS[name]["fieldConfig"]["defaults"].get("thresholds", {"steps": []})["steps"]
    values = [step["value"] for step in steps]
    assert values[:1] in ([], [None])
    assert 80 not in values
    assert values[1:] == sorted(values[1:])


def test_the_speed_of_reading_is_marked() -> None:
    for name in ("tokometer-overview / Decode rate per user",):
        defaults = PANELS[name]["fieldConfig"]["defaults"]
        assert {"value": 5, "color": "red"} in defaults["thresholds"]["steps"]
        assert defaults["custom"]["thresholdsStyle"]["mode"] == "dashed"


def test_provisioning_finds_the_boards() -> None:
    text = Path(HERE, "provisioning/dashboards/tokometer.yml").read_text("utf-8")
    assert "/var/lib/grafana/dashboards" in text
