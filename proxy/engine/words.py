"""What the simulated engine says: tokens are pieces of about four characters.

A token of an answer is a short word with the space before it, a token of a prompt or of JSON is
four characters; so the engine's counts are exact by construction and a client's estimate of four
characters a token is about right.
"""

import random
from collections.abc import Iterator
from typing import Any

import orjson

CHARACTERS_PER_TOKEN = 4

_TEXT = (
    "the sea was calm and the old boat lay far out on a slow tide while two men sat by "
    "the lamp and ate warm bread with salt then one got up to look at the sky it had no "
    "moon but all of the west was red like iron from a fire so he said rain will come"
)
_WORDS = _TEXT.split()


def count_tokens(text: str) -> int:
    """Tokens of a prompt: one per four characters, the last one perhaps shorter."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fragments(text: str) -> list[str]:
    """The tokens of `text` by the rule of `count_tokens`."""
    step = CHARACTERS_PER_TOKEN
    return [text[start : start + step] for start in range(0, len(text), step)]


def sentence(chance: random.Random, tokens: int) -> Iterator[str]:
    """`tokens` words, every one but the first with the space before it."""
    for number in range(tokens):
        word = chance.choice(_WORDS)
        yield f" {word}" if number else word.capitalize()


def arguments(chance: random.Random, schema: Any) -> list[str]:
    """Arguments of a tool call as pieces of JSON text: a value for each property of the schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    named = properties.items() if isinstance(properties, dict) else ()
    return fragments(orjson.dumps({name: _value(chance, part) for name, part in named}).decode())


def _value(chance: random.Random, schema: Any) -> Any:
    """A value of the type that a JSON schema asks for; without a type, a text."""
    schema = schema if isinstance(schema, dict) else {}
    allowed = schema.get("enum")
    if isinstance(allowed, list) and allowed:
        return allowed[0]
    match schema.get("type"):
        case "integer" | "number":
            return chance.randrange(100)
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
        case _:
            return "".join(sentence(chance, 2))


def spoken(content: Any, levels: int = 8) -> str:
    """All text in the content of messages: strings, and parts that have a text or a content.

    Nothing is looked for more than `levels` lists and parts deep.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and levels:
        return spoken(content.get("text") or content.get("content"), levels - 1)
    if isinstance(content, list) and levels:
        return "".join(spoken(part, levels - 1) for part in content)
    return ""
