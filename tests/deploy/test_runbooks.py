import re

import pytest
from timelines import ROOT, Rules

TEXT = (ROOT / "docs/runbooks.md").read_text("utf-8")
RULES = Rules.committed().alerts["rules"]
ALERTS = sorted({rule["alert"] for rule in RULES})
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", TEXT, re.MULTILINE))
PARTS = ("Meaning", "What users feel", "Checks", "Remedies", "A new baseline")


def anchor(heading: str) -> str:
    """As GitHub and most other renderers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_alert_has_its_heading_and_nothing_else_has_one() -> None:
    assert sorted(SECTIONS.keys() - {"Accepting a new baseline"}) == ALERTS


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_the_link_of_an_alert_leads_to_its_heading(rule: dict[str, dict[str, str]]) -> None:
    page, _, target = rule["annotations"]["runbook_url"].partition("#")
    assert page.endswith("docs/runbooks.md")
    assert target == anchor(str(rule["alert"]))
    assert target in {anchor(heading) for heading in SECTIONS}


@pytest.mark.parametrize("alert", ALERTS)
def test_a_runbook_says_what_to_check_and_what_to_do(alert: str) -> None:
    section = SECTIONS[alert]
    assert re.findall(r"^\*\*(.+)\.\*\*", section, re.MULTILINE) == list(PARTS)
    assert re.findall(r"^(\d)\. ", section, re.MULTILINE) == ["1", "2", "3"]


def test_links_inside_the_page_lead_somewhere() -> None:
    anchors = {anchor(heading) for heading in SECTIONS}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors


def test_boards_are_those_that_alerts_name_too() -> None:
    boards = {"overview", "regression", "streams", "capacity", "users", "proxy"}
    assert set(re.findall(r"`tokometer-(\w+)`", TEXT)) <= boards
    named = {rule["annotations"]["dashboard_url"].partition("/d/tokometer-")[2] for rule in RULES}
    assert {one.partition("?")[0] for one in named} <= boards
