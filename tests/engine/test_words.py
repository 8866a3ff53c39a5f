import json
import math
import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from proxy.engine.words import arguments, count_tokens, fragments, sentence, spoken


@given(some.text())
def test_a_prompt_has_a_token_per_four_characters(text: str) -> None:
    assert count_tokens(text) == math.ceil(len(text) / 4) == len(fragments(text))
    assert "".join(fragments(text)) == text


@pytest.mark.parametrize("tokens", [0, 1, 2, 500])
def test_a_sentence_has_a_word_per_token(tokens: int) -> None:
    words = list(sentence(random.Random(3), tokens))
    assert len(words) == len("".join(words).split()) == tokens


def test_words_are_about_four_characters_with_their_space() -> None:
    sizes = map(len, sentence(random.Random(3), 5000))
    assert statistics.mean(sizes) == pytest.approx(4, abs=0.5)


# What a client may send as a schema, sensible or not.
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(["type", "properties", "enum", "a"]), inner, max_size=3
        )
    ),
)


@given(JSON)
def test_arguments_are_an_object_whatever_the_schema(schema: Any) -> None:
    pieces = arguments(random.Random(3), schema)
    assert isinstance(json.loads("".join(pieces)), dict)


def test_a_message_speaks_with_all_its_texts() -> None:
    content = [
        {"role": "user", "content": "one "},
        {"content": [{"type": "text", "text": "two "}, {"type": "image_url"}, "three"]},
    ]
    assert spoken(content) == "one two three"


@given(JSON)
def test_any_content_has_a_text(content: Any) -> None:
    assert isinstance(spoken(content), str)


def test_content_that_lies_very_deep_is_not_looked_for() -> None:
    content: Any = "deep"
    for _ in range(1000):
        content = [{"content": content}]
    assert spoken(content) == ""
