"""The reference in README.md: what each panel shows, and which metrics it is made of."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

_TABLES = re.compile(r"(?<=<!-- boards -->\n).*(?=<!-- end -->)", re.DOTALL)
_METRIC = re.compile(r"\b(?:\w+:)*(?:tokometer_)[\w:]+|\bup\b|\bALERTS\b")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")


def metrics(expr: str) -> list[str]:
    """Names in an expression, histograms without suffix, in order and once."""
    outside_labels = re.sub(r'"[^"]*"', "", expr)
    names = (_family(name) for name in _METRIC.findall(outside_labels))
    return list(dict.fromkeys(names))


def _family(name: str) -> str:
    return name if ":" in name else _SUFFIX.sub("", name)


def expressions(panel: dict[str, Any]) -> list[str]:
    """The expressions of a panel, or of an annotation."""
    return [target["expr"] for target in panel.get("targets", [panel]) if "expr" in target]


def panel_metrics(panel: dict[str, Any]) -> list[str]:
    """What a panel is made of."""
    return metrics("\n".join(expressions(panel)))


def reference(readme: str, boards: Sequence[dict[str, Any]]) -> str:
    """`readme` with tables that are those of `boards`."""
    return _TABLES.sub(lambda _: "\n".join(_lines(boards)) + "\n", readme)


def _lines(boards: Iterable[dict[str, Any]]) -> Iterable[str]:
    for board in boards:
        yield f"\n### {board['title']}\n"
        yield f"{board['description']} Uid `{board['uid']}`.\n"
        yield "| panel | shows | made of |\n| --- | --- | --- |"
        for panel in board["panels"]:
            if panel["type"] != "row":
                made_of = ", ".join(f"`{name}`" for name in panel_metrics(panel))
                about, _, _ = panel["description"].partition("\n\n")
                yield f"| {panel['title']} | {about} | {made_of} |"
