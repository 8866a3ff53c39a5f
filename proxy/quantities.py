"""Sizes, durations and numbers as people write them. Each reader gives None for anything else."""

import math
import re

BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
NUMBERS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
BITS = re.compile(r"[KMGT]b")
SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-z]*)")
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?")


def size(text: str) -> int | None:
    """Bytes in a size such as `1000000`, `64MiB` or `1.5 GB`."""
    found = QUANTITY.fullmatch(text.lower())
    if found is None or found[2] not in BYTES:
        return None
    return round(float(found[1]) * BYTES[found[2]])


def size_text(of: int) -> str:
    """A size in the largest binary unit that divides it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if of and of % unit == 0:
            return f"{of // unit} {name}"
    return f"{of} B"


def bandwidth(text: str) -> int | None:
    """Bytes per second in a bandwidth such as `150GB/s`; None for `150Gb/s`, which means bits."""
    of, slash, per = text.partition("/")
    if per != "s" or not slash or BITS.search(of):
        return None
    return size(of.rstrip())


def count(text: str) -> float | None:
    """A large number as people write it, `7e9` or `7B`; `M` is a million, `B` a billion."""
    found = QUANTITY.fullmatch(text.lower())
    if found is None or found[2] not in NUMBERS:
        return decimal(text)
    return float(found[1]) * NUMBERS[found[2]]


def bytes_text(of: float) -> str:
    """Bytes in decimal units, as memory and its bandwidth are quoted: `3.3 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if of >= unit:
            return f"{of / unit:.4g} {name}"
    return f"{of:.4g} B"


def duration(text: str) -> float | None:
    """Seconds in a duration such as `5`, `0.5s`, `500ms` or `2m`."""
    found = QUANTITY.fullmatch(text.lower())
    if found is None or found[2] not in SECONDS:
        return None
    return float(found[1]) * SECONDS[found[2]]


def whole(text: str) -> int | None:
    """A whole number."""
    return int(text) if WHOLE.fullmatch(text) else None


def decimal(text: str) -> float | None:
    """A finite number, `2.5` or `1e-3`."""
    if not DECIMAL.fullmatch(text.lower()):
        return None
    return float(text) if math.isfinite(float(text)) else None
