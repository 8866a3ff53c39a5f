"""Decode rates of request logs, by model and concurrency."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from proxy.cells import concurrency_class
from proxy.settings import SettingError


class Cell(NamedTuple):
    """Streams of one model and class of concurrency (`unknown` where the log has none)."""

    model: str
    concurrency: str
    rates: list[float]  # tokens per second

    @property
    def rate(self) -> float:
        """The geometric mean, as that of a cell in the metrics."""
        return math.exp(math.fsum(map(math.log, self.rates)) / len(self.rates))


def cells(paths: Sequence[str], model: str | None = None) -> list[Cell]:
    """The cells of these logs, by model (only this one, if one is given), then by concurrency.

    Raises SettingError where a log cannot be read, or has no decode rate.
    """
    found: dict[tuple[str, int, str], Cell] = {}
    for path in paths:
        for line in _lines(path):
            name, rate = str(line.get("model", "")), line.get("decode_tokens_per_second")
            if not isinstance(rate, int | float) or rate <= 0 or (model and name != model):
                continue
            # That at arrival says little of a stream that ran beside others which came later.
            order, users = _class(line.get("decode_concurrency", line.get("concurrency")))
            found.setdefault((name, order, users), Cell(name, users, [])).rates.append(rate)
    if not found:
        of = f" of {model}" if model else ""
        raise SettingError(f"log: there is no decode rate{of} in {', '.join(paths)}")
    return [found[key] for key in sorted(found)]


def _class(streams: object) -> tuple[int, str]:
    """The class of a concurrency, behind the number that it begins with."""
    if not isinstance(streams, int | float):
        return 0, "unknown"
    users = concurrency_class(streams)
    return int(users.split("-")[0].rstrip("+")), users


def _lines(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            for number, text in enumerate(file, 1):
                yield _line(text, f"{path} line {number}")
    except OSError as error:
        raise SettingError(f"log: cannot read {path}: {error.strerror}") from None


def _line(text: bytes, source: str) -> dict[str, Any]:
    try:
        line = orjson.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise SettingError(f"log: {source} is no JSON object: give a file of --log-requests")
    return line
