"""Content encodings: the metered copy of a compressed answer is read, the answer itself never.

Source: RFC 9110 section 8.4.1 (gzip, deflate), RFC 7932 (br), RFC 8878 (zstd).
"""

import zlib
from collections.abc import Callable

import brotli
import zstandard

# More plain bytes than this out of one read is a decompression bomb, not a token stream; so is more
# than a few codings in one another, or members of a gzip file by the thousand.
MAX_PLAIN_BYTES = 8 << 20
_MAX_CODINGS = 3
_MAX_MEMBERS = 1000
# What one coding hands to the next: no read of a socket is longer.
_MAX_BETWEEN_BYTES = 256 << 10


class Undecodable(Exception):
    """The bytes are not what the header says, or too many come out of them."""


class Decoder:
    """Takes compressed bytes cut anywhere, gives the plain ones that they complete."""

    __slots__ = ("_steps",)

    def __init__(self, steps: list[Callable[[bytes], bytes]]) -> None:
        self._steps = steps

    def feed(self, data: bytes) -> bytes:
        """Plain bytes of one read. Raises: Undecodable."""
        try:
            for number, step in enumerate(self._steps):
                if number and len(data) > _MAX_BETWEEN_BYTES:
                    raise Undecodable("too large between two codings")
                data = step(data)
        except (zlib.error, brotli.error, zstandard.ZstdError) as problem:
            raise Undecodable(str(problem)) from None
        return data


def decoder(content_encoding: str) -> Decoder | None:
    """A decoder for a Content-Encoding value; None where there is nothing to decode.

    Raises: Undecodable for a coding that is not known.
    """
    names = [n for part in content_encoding.lower().split(",") if (n := part.strip())]
    coded = [name for name in reversed(names) if name != "identity"]
    if len(coded) > _MAX_CODINGS:
        raise Undecodable("too many codings in one another")
    steps = [_step(name) for name in coded]
    return Decoder(steps) if steps else None


def _step(name: str) -> Callable[[bytes], bytes]:
    if name in ("gzip", "x-gzip"):
        return _inflate(zlib.MAX_WBITS | 16)
    if name == "deflate":
        return _deflate()
    if name == "br":
        return _brotli()
    if name == "zstd":
        return _zstd()
    raise Undecodable(f"unknown content coding {name[:32]!r}")


def _inflate(window: int) -> Callable[[bytes], bytes]:
    inflater = zlib.decompressobj(window)

    def step(data: bytes) -> bytes:
        nonlocal inflater
        plain, members = bytearray(), 0
        while data:
            if inflater.eof:  # another gzip member follows
                inflater = zlib.decompressobj(window)
                members += 1
            plain += inflater.decompress(data, MAX_PLAIN_BYTES + 1 - len(plain))
            if len(plain) > MAX_PLAIN_BYTES or members > _MAX_MEMBERS:
                raise Undecodable("too large when decompressed")
            data = inflater.unused_data
        return bytes(plain)

    return step


def _deflate() -> Callable[[bytes], bytes]:
    """RFC 9110 means zlib's format; some servers send a bare deflate stream."""
    chosen: Callable[[bytes], bytes] | None = None

    def step(data: bytes) -> bytes:
        nonlocal chosen
        if chosen is None and data:
            zlib_header = data[0] & 0x0F == 8
            chosen = _inflate(zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)
        return chosen(data) if chosen else b""

    return step


def _brotli() -> Callable[[bytes], bytes]:
    inflater = brotli.Decompressor()

    def step(data: bytes) -> bytes:
        plain = bytes(inflater.process(data, output_buffer_limit=MAX_PLAIN_BYTES))
        if not inflater.can_accept_more_data():
            raise Undecodable("too large when decompressed")
        return plain

    return step


_ZSTD_SLICE = 128


def _zstd() -> Callable[[bytes], bytes]:
    # A window over this is not needed by any stream of tokens (RFC 8878 asks for 8 MiB).
    inflater = zstandard.ZstdDecompressor(max_window_size=MAX_PLAIN_BYTES).decompressobj(
        read_across_frames=True
    )

    def step(data: bytes) -> bytes:
        plain = bytearray()
        # The library has no limit on what one call gives. A block of 4 bytes can hold 128 KiB.
        for start in range(0, len(data), _ZSTD_SLICE):
            plain += inflater.decompress(data[start : start + _ZSTD_SLICE])
            if len(plain) > MAX_PLAIN_BYTES:
                raise Undecodable("too large when decompressed")
        return bytes(plain)

    return step
