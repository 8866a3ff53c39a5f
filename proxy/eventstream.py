"""Frames of `application/vnd.amazon.eventstream`, cut out of reads and checked.

Source: AWS, "Event stream encoding" (Amazon Transcribe developer guide; the Smithy specification
has the same). A frame is

    total length u32 | headers' length u32 | CRC32 of these | headers | payload | CRC32 of all

in network order; a header is name length u8, name, type u8, value.
"""

import struct
from typing import NamedTuple
from zlib import crc32

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
# Bytes of a header's value by its type; bytes (6) and text (7) have their length before them.
_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_TEXT = 7


class Frame(NamedTuple):
    """One frame: its headers that are text, by name, and its payload."""

    headers: dict[bytes, bytes]
    payload: bytes


class Frames:
    """Cuts reads into frames.

    `broken` is set by a checksum that does not fit or a length that cannot be: where the next
    frame begins is unknown then, and nothing more comes out.
    """

    __slots__ = ("_data", "broken")

    def __init__(self) -> None:
        self._data = bytearray()  # from the beginning of the unfinished frame on
        self.broken = False

    @property
    def pending(self) -> int:
        """Bytes of the unfinished frame."""
        return len(self._data)

    def feed(self, data: bytes) -> list[Frame]:
        """Take one read; return the frames that it completed."""
        frames: list[Frame] = []
        if self.broken:
            return frames
        self._data += data
        start = 0
        while len(self._data) - start >= _PRELUDE.size and not self.broken:
            total, headers, checksum = _PRELUDE.unpack_from(self._data, start)
            if checksum != crc32(self._data[start : start + 8]) or total < headers + 16:
                self.broken = True
            elif len(self._data) - start < total:
                break
            else:
                frames += self._frame(bytes(self._data[start : start + total]), headers)
                start += total
        del self._data[: len(self._data) if self.broken else start]
        return frames

    def _frame(self, frame: bytes, headers: int) -> list[Frame]:
        end = len(frame) - _CHECKSUM.size
        if _CHECKSUM.unpack_from(frame, end)[0] != crc32(frame[:end]):
            self.broken = True
            return []
        start = _PRELUDE.size
        return [Frame(_headers(frame[start : start + headers]), frame[start + headers : end])]


def _headers(data: bytes) -> dict[bytes, bytes]:
    """The headers that are text, up to the first that cannot be read."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        value = at + 2 + data[at]
        name = data[at + 1 : value - 1]
        if value > len(data):
            break
        kind = data[value - 1]
        size = _VALUE_BYTES.get(kind)
        if size is None:
            if kind not in (6, _TEXT) or value + 2 > len(data):
                break
            size = _LENGTH.unpack_from(data, value)[0]
            value += 2
        if kind == _TEXT:
            found[name] = data[value : value + size]
        at = value + size
    return found
