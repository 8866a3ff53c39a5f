"""Coercions: what is not as documented becomes absent, never wrong."""

from typing import Any

import pytest

from proxy.formats.event import (
    Usage,
    characters,
    count,
    first,
    is_error,
    items,
    mapping,
    mappings,
    text,
    written,
)


@pytest.mark.parametrize("value", [0, 1, 10**11, 3.0])
def test_whole_numbers_are_counts(value: float) -> None:
    assert count(value) == value
    assert type(count(value)) is int


@pytest.mark.parametrize("value", [None, True, False, -1, -0.5, 2.5, 10**12, 1e300, "3", [3], {}])
def test_anything_else_is_no_count(value: Any) -> None:
    assert count(value) is None


def test_first_takes_the_first_key_that_holds_a_count() -> None:
    assert first({"a": None, "b": "x", "c": 0, "d": 4}, "a", "b", "c", "d") == 0
    assert first({}, "a") is None


def test_an_empty_text_is_none() -> None:
    assert text("") is None
    assert text("x") == "x"
    assert text(["x"]) is None


def test_values_of_another_type_become_empty() -> None:
    assert mapping([1]) == {} and mapping({"a": 1}) == {"a": 1}
    assert items({"a": 1}) == [] and items([1]) == [1]
    assert mappings([1, {"a": 1}, None]) == [{"a": 1}]
    assert mappings({"a": 1}) == [{"a": 1}]
    assert mappings("x") == []


def test_characters_of_texts_and_parts() -> None:
    assert characters("héé") == 3
    assert characters([{"type": "text", "text": "ab"}, "c", {"content": [{"text": "de"}]}]) == 5
    assert characters([{"refusal": "no"}]) == 2
    assert characters([{"image_url": {"url": "data:image/png;base64,AAAA"}}]) == 0
    assert characters({"text": "ab"}) == 0
    assert characters(None) == 0


def test_arguments_are_counted_as_they_would_be_written() -> None:
    assert written('{"a":1}') == 7
    assert written({"a": 1}) == 7
    assert written({"a": "é"}) == 9
    assert written({}) == 0
    assert written(None) == 0
    assert written(7) == 0


def test_arguments_nested_too_deep_to_write_are_still_output() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    assert written(deep) == 1


@pytest.mark.parametrize(
    ("usage", "generated"),
    [
        (Usage(prompt=12, output=1, reasoning=290, total=303), 291),  # xAI: counted beside
        (Usage(prompt=12, output=300, reasoning=290, total=312), 300),  # OpenAI: counted inside
        (Usage(prompt=12, output=5, reasoning=0, total=17), 5),
        (Usage(prompt=12, output=5, reasoning=3), 5),
        (Usage(output=1, reasoning=2, total=3), 3),
        (Usage(prompt=3, reasoning=2, total=5), None),
    ],
)
def test_reasoning_counted_beside_the_output_is_added(usage: Usage, generated: int | None) -> None:
    assert usage.generated == generated


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"error": {"message": "x"}}, ""),
        ({"error": "x", "error_type": "generation"}, ""),
        ({"object": "error", "message": "x"}, ""),
        ({"type": "error", "code": None, "message": "x"}, ""),
        ({"detail": "Not Found"}, ""),
        ({"message": "x"}, "error"),
    ],
)
def test_errors_in_any_shape_seen_are_errors(payload: dict[str, Any], name: str) -> None:
    assert is_error(payload, name)


@pytest.mark.parametrize(
    "payload",
    [{}, {"error": None}, {"error": ""}, {"detail": "high", "image": 1}, {"type": "ping"}],
)
def test_what_only_looks_like_an_error_is_none(payload: dict[str, Any]) -> None:
    assert not is_error(payload, "")
