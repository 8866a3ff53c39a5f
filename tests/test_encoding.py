"""Compressed answers: plain bytes as early as they can be had, and never too many of them."""

import itertools
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.encoding import MAX_PLAIN_BYTES, Decoder, Undecodable, decoder

TEXT = b"data: 1\n\n" + bytes(range(256)) * 3 + b"data: 2\n\n"


def deflated(data: bytes, window: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    return packer.compress(data) + packer.flush()


def gzip(data: bytes) -> bytes:
    return deflated(data, 31)


def deflate(data: bytes) -> bytes:
    return deflated(data, 15)


def bare(data: bytes) -> bytes:
    return deflated(data, -15)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip),
    ("deflate", deflate),
    ("deflate", bare),
    ("br", brotli.compress),
    ("zstd", zstd),
]
each_coding = pytest.mark.parametrize(("name", "pack"), PACKERS)


def of(name: str) -> Decoder:
    found = decoder(name)
    assert found is not None
    return found


def plain(name: str, *reads: bytes) -> bytes:
    unpack = of(name)
    return b"".join(unpack.feed(data) for data in reads)


@pytest.mark.parametrize("name", ["", "identity", " Identity ,", ",,"])
def test_there_is_nothing_to_decode(name: str) -> None:
    assert decoder(name) is None


@pytest.mark.parametrize("name", ["compress", "x-secret", "gzip, what", "gzip;q=1", "\xff"])
def test_an_unknown_coding_cannot_be_read(name: str) -> None:
    with pytest.raises(Undecodable):
        decoder(name)


@each_coding
def test_whole_and_one_byte_at_a_time(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)
    assert plain(name, packed) == TEXT
    assert plain(name.upper(), *(packed[n : n + 1] for n in range(len(packed)))) == TEXT
    assert plain(name, b"", packed, b"") == TEXT


def test_codings_are_undone_in_the_reverse_order() -> None:
    assert plain("gzip, br", brotli.compress(gzip(TEXT))) == TEXT
    assert plain("identity, zstd , x-gzip", gzip(zstd(TEXT))) == TEXT


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip), ("zstd", zstd)])
def test_several_members_follow_each_other(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"one") + pack(b"") + pack(b"two")
    assert plain(name, packed) == b"onetwo"
    assert plain(name, *(packed[n : n + 1] for n in range(len(packed)))) == b"onetwo"


def test_what_was_flushed_comes_out_at_once() -> None:
    packers = {
        "gzip": zlib.compressobj(9, zlib.DEFLATED, 31),
        "deflate": zlib.compressobj(9, zlib.DEFLATED, -15),
    }
    for name, packer in packers.items():
        unpack = of(name)
        for text in (b"data: 1\n\n", b"data: 2\n\n"):
            packed = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
            assert unpack.feed(packed) == text
    squeeze, unpack = brotli.Compressor(), of("br")
    for text in (b"data: 1\n\n", b"data: 2\n\n"):
        assert unpack.feed(squeeze.process(text) + squeeze.flush()) == text
    pack, unpack = zstandard.ZstdCompressor().compressobj(), of("zstd")
    for text in (b"data: 1\n\n", b"data: 2\n\n"):
        packed = pack.compress(text) + pack.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        assert unpack.feed(packed) == text


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "deflate"])
def test_other_bytes_cannot_be_read(name: str) -> None:
    with pytest.raises(Undecodable):
        plain(name, b"data: {}\n\n" * 20)


@each_coding
def test_a_bomb_is_not_unpacked(name: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Undecodable):
        plain(name, pack(bytes(4 * MAX_PLAIN_BYTES)))


def test_a_bomb_in_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(Undecodable):
        plain("gzip, gzip", gzip(gzip(bytes(4 * MAX_PLAIN_BYTES))))


@each_coding
def test_much_text_in_several_reads_is_no_bomb(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(MAX_PLAIN_BYTES - 1))
    assert len(plain(name, packed)) == MAX_PLAIN_BYTES - 1


@given(st.sampled_from(PACKERS), st.binary(max_size=400), st.lists(st.integers(0, 500), max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_bytes_come_out_however_they_are_cut(
    coding: tuple[str, Callable[[bytes], bytes]], data: bytes, places: list[int]
) -> None:
    name, pack = coding
    packed = pack(data)
    edges = [0, *sorted(min(place, len(packed)) for place in places), len(packed)]
    reads = [packed[start:end] for start, end in itertools.pairwise(edges)]
    assert plain(name, *reads) == data


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip(b"") * 20_000),
        ("gzip, gzip", gzip(gzip(b"") * 390_000)),
        ("zstd, gzip", gzip(zstandard.compress(b"a" * 7_000_000, 1) + bytes(400_000))),
        ("gzip, gzip, gzip, gzip", b""),
        (",".join(["zstd"] * 10_000), b""),
    ],
)
def test_what_would_take_long_to_undo_is_not_undone(coding: str, body: bytes) -> None:
    with pytest.raises(Undecodable):
        found = decoder(coding)
        assert found is not None
        for start in range(0, len(body), 65536):
            found.feed(body[start : start + 65536])
