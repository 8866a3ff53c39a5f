"""Answers of the simulated engine: what will be said, before any of it is."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import groupby, islice, zip_longest
from typing import NamedTuple

from proxy.engine import words
from proxy.engine.ask import Ask, Function
from proxy.engine.settings import EngineSettings


class Channel(Enum):
    """Where a token goes to."""

    REASONING = auto()
    TEXT = auto()
    NAME = auto()  # of the function that is called
    ARGUMENTS = auto()


class Piece(NamedTuple):
    """One token."""

    channel: Channel
    text: str


# What is called where tool calls are set but the request declares no function.
WEATHER = Function("get_weather", {"properties": {"city": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as its tokens; `finish` in chat completions' words: stop, length, tool_calls."""

    pieces: tuple[Piece, ...]
    finish: str

    def text(self, channel: Channel) -> str:
        """All that is said on one channel."""
        return "".join(piece.text for piece in self.pieces if piece.channel is channel)


def runs(pieces: Sequence[Piece]) -> Iterator[tuple[Channel, str]]:
    """Pieces that follow each other on one channel, put together."""
    for channel, group in groupby(pieces, key=lambda piece: piece.channel):
        yield channel, "".join(piece.text for piece in group)


def compose(settings: EngineSettings, ask: Ask, prompt: str, number: int) -> Answer:
    """The answer to `prompt`, always the same one under the same seed; `number` of several."""
    called = _called(settings, ask)
    chance = random.Random(f"{settings.seed}/{number}/{prompt}")
    tokens = _tokens(settings, ask, called, chance)
    pieces = tuple(islice(tokens, ask.limit))
    if next(tokens, None) is not None:
        return Answer(pieces, "length")
    return Answer(pieces, "stop" if called is None else "tool_calls")


def _tokens(
    settings: EngineSettings, ask: Ask, called: Function | None, chance: random.Random
) -> Iterator[Piece]:
    """An answer without end but its own."""
    for word in words.sentence(chance, settings.reasoning if ask.reasons else 0):
        yield Piece(Channel.REASONING, word)
    if called is None:
        for word in words.sentence(chance, settings.answer_tokens):
            yield Piece(Channel.TEXT, word)
        return
    yield Piece(Channel.NAME, called.name)
    for fragment in words.arguments(chance, called.schema):
        yield Piece(Channel.ARGUMENTS, fragment)


def _called(settings: EngineSettings, ask: Ask) -> Function | None:
    if ask.tool_choice == "required" or (settings.tools and ask.tool_choice != "none"):
        return ask.functions[0] if ask.functions else WEATHER
    return None


class Burst(NamedTuple):
    """The tokens of one answer that leave together."""

    answer: int  # its number
    pieces: tuple[Piece, ...]
    last: bool  # nothing of the answer is left


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request gets: every answer, and what names them on the wire."""

    ask: Ask
    model: str
    key: str  # what ids are made of
    created: datetime
    answers: tuple[Answer, ...]  # of the first prompt, then of the second, ...

    @property
    def output_tokens(self) -> int:
        return sum(len(answer.pieces) for answer in self.answers)

    @property
    def reasoning_tokens(self) -> int:
        hidden = Channel.REASONING
        return sum(piece.channel is hidden for answer in self.answers for piece in answer.pieces)

    def bursts(self, size: int) -> list[list[Burst]]:
        """The answers cut into bursts of `size` tokens: for each step, each answer's burst."""
        columns = [_cut(index, answer, size) for index, answer in enumerate(self.answers)]
        return [list(filter(None, step)) for step in zip_longest(*columns)]


def _cut(index: int, answer: Answer, size: int) -> list[Burst]:
    pieces = answer.pieces
    return [
        Burst(index, pieces[start : start + size], start + size >= len(pieces))
        for start in range(0, len(pieces), size)
    ]
