"""What a GGUF file holds, by its header: the format of llama.cpp's models.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3 of it,
little-endian.
"""

import mmap
import struct
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# By the type's number: how `struct` reads it.
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_ALIGNMENT = 32  # bytes, where `general.alignment` does not say otherwise

Scalar = int | float | bool | str


class Header(NamedTuple):
    """`metadata` without its arrays; `tensors`: bytes by name, the padding behind each included."""

    metadata: dict[str, Scalar]
    tensors: dict[str, int]


def read(path: Path) -> Header:
    """Raises OSError, and ValueError (one line) if it is not a whole GGUF file."""
    with path.open("rb") as file:
        if file.read(4) != _MAGIC:
            raise ValueError(f"{path} is no GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Cursor(data).header()
            except (struct.error, KeyError, UnicodeDecodeError, OverflowError, RecursionError):
                raise ValueError(f"{path}: its GGUF header cannot be read") from None
            except ValueError as problem:
                raise ValueError(f"{path}: {problem}") from None


class _Cursor:
    """Reads one value after the other; struct.error where the file ends before."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = len(_MAGIC)

    def header(self) -> Header:
        version, tensors, pairs = self._numbers("IQQ")
        if version not in _VERSIONS:
            raise ValueError(f"GGUF version {version} is none that can be read: give the size")
        metadata = {}
        for _ in range(pairs):
            key, value = self._string(), self._value(self._numbers("I")[0])
            if value is not None:
                metadata[key] = value
        offsets = [(self._string(), self._offset()) for _ in range(tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1:
            raise ValueError(f"general.alignment {alignment!r} is no number of bytes")
        return Header(metadata, self._sizes(offsets, alignment))

    def _numbers(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def _string(self) -> str:
        (length,) = self._numbers("Q")
        begin, self._at = self._at, self._at + length
        return self._data[begin : self._at].decode()

    def _value(self, kind: int) -> Scalar | None:
        """A value of the metadata; None for an array, which is skipped."""
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._numbers(_SCALARS[kind])[0]
        of, length = self._numbers("IQ")
        if of in _SCALARS:
            self._at += length * struct.calcsize("<" + _SCALARS[of])
            return None
        for _ in range(length):
            self._value(of)
        return None

    def _offset(self) -> int:
        """Of a tensor's bytes, behind its shape and its type."""
        (dimensions,) = self._numbers("I")
        return self._numbers(f"{dimensions}QIQ")[-1]

    def _sizes(self, offsets: list[tuple[str, int]], alignment: int) -> dict[str, int]:
        """From one tensor's begin to the next: so no table of quantizations is needed."""
        begin = -(-self._at // alignment) * alignment
        ends = sorted({offset for _, offset in offsets} | {len(self._data) - begin})
        if offsets and ends[-1] <= max(offset for _, offset in offsets):
            raise ValueError("the file is cut short: has all of it been downloaded?")
        following = dict(pairwise(ends))
        return {name: following[offset] - offset for name, offset in offsets}
