"""What a safetensors file holds, by its header: the format of Hugging Face's models.

The format: https://github.com/huggingface/safetensors#format.
"""

import os
import struct
from pathlib import Path
from typing import Any

import orjson

_MAX_HEADER_BYTES = 100_000_000  # as the reference implementation has it


def tensors(path: Path) -> dict[str, int]:
    """Bytes by name of tensor. Raises OSError, and ValueError (one line) if it is none."""
    with path.open("rb") as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            spans = _spans(orjson.loads(file.read(min(length, _MAX_HEADER_BYTES))))
        except (struct.error, ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path}: it has no safetensors header that can be read") from None
        last = max((end for _, end in spans.values()), default=0)
        if file.seek(0, os.SEEK_END) < 8 + length + last:
            raise ValueError(f"{path}: the file is cut short: has all of it been downloaded?")
    return {name: end - begin for name, (begin, end) in spans.items()}


def _spans(header: Any) -> dict[str, tuple[int, int]]:
    """Where each tensor begins and ends."""
    spans = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            spans[name] = int(begin), int(end)
    return spans


def parts(index: Path) -> list[Path]:
    """The files that a `model.safetensors.index.json` names. Raises as `tensors` does."""
    try:
        names = set(orjson.loads(index.read_bytes())["weight_map"].values())
        return [index.parent / name for name in sorted(names)]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{index}: it is no index of safetensors files") from None
