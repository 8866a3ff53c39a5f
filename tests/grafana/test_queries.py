"""How boards ask: windows, sums before ratios, no division by nothing, the variables' choice."""

import re

import pytest
from shown import EXPRESSIONS, METRICS, NOT_YET, base

every_expression = pytest.mark.parametrize("expr", EXPRESSIONS)


@every_expression
def test_windows_follow_the_time_shown(expr: str) -> None:
    fixed = re.findall(r"\[(\w+)[\]:]", expr)
    assert not fixed, "fixed windows are for recording rules"


@every_expression
def test_a_counter_is_never_shown_raw(expr: str) -> None:
    counter = r"tokometer_\w+_(?:total|bucket|count|sum)\{"
    assert len(re.findall(counter, expr)) == len(re.findall(rf"(?:rate|increase)\({counter}", expr))


@every_expression
def test_sums_come_before_quantiles_and_ratios(expr: str) -> None:
    for argument in re.findall(r"histogram_quantile\([\d.]+, (.{12})", expr):
        assert argument.startswith("sum by (le")
    assert not re.search(r"(avg|max|min|sum)[^(]*\([^()]*histogram_quantile", expr)
    assert "_sum{" not in expr, "a mean where the tail matters"


def group(text: str) -> str:
    """The parenthesis that `text` begins with."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text[: place + 1]
    raise AssertionError(text)


@every_expression
def test_what_is_divided_by_is_more_than_nothing(expr: str) -> None:
    for found in re.finditer(r" / (?:on \([\w, ]*\) )?(?:group_left \([\w, ]*\) )?", expr):
        divisor = expr[found.end() :]
        if divisor.startswith("("):
            inner = group(divisor)
            assert inner.endswith(" > 0)") or inner.startswith("(exp("), inner
        else:
            assert re.match(r"1e6|\w+:tokometer_\w+:standard_error", divisor), divisor


@every_expression
def test_every_series_is_chosen_by_the_boards_variables(expr: str) -> None:
    name = r"\b(?:\w+:)?(?:tokometer_\w+(?::\w+)?|up\b|ALERTS\b)"
    for series in re.findall(rf"{name}(?:\{{[^}}]*\}})?", unquoted(expr)):
        assert "job=~" in series


def unquoted(expr: str) -> str:
    return re.sub(r'"[^"]*"', "", expr)


@every_expression
def test_labels_are_those_of_the_metric(expr: str) -> None:
    for name, matchers in re.findall(r"\b(tokometer_\w+)\{([^}]*)\}", expr):
        labels = (
            METRICS[base(name)].labels if base(name) in METRICS else NOT_YET[base(name)].split()
        )
        used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", matchers)))
        assert used <= {*labels, "job", "instance", "le"}, name
