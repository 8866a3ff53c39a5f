"""Frames: cut anywhere, checked, and never an exception for any bytes."""

import struct
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.eventstream import Frame, Frames


def frame(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


def header(name: bytes, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


def text(name: bytes, value: bytes) -> bytes:
    return header(name, 7, struct.pack(">H", len(value)) + value)


def test_a_frame_without_headers_or_payload() -> None:
    # The smallest of the examples in AWS's specification.
    data = bytes.fromhex("000000100000000005c248eb7d98c8ff")
    assert Frames().feed(data) == [Frame({}, b"")]


def test_a_frame_with_a_payload_and_a_number_among_its_headers() -> None:
    headers = header(b"event-type", 4, struct.pack(">i", 40972))
    assert Frames().feed(frame(headers, b'{"foo":"bar"}')) == [Frame({}, b'{"foo":"bar"}')]


def test_text_headers_are_kept_whatever_stands_between_them() -> None:
    others = [
        header(b"t", 0, b""),
        header(b"f", 1, b""),
        header(b"b", 2, b"\x01"),
        header(b"s", 3, b"\x01\x02"),
        header(b"i", 4, b"1234"),
        header(b"l", 5, b"12345678"),
        header(b"raw", 6, b"\x00\x03abc"),
        header(b"at", 8, b"12345678"),
        header(b"id", 9, b"0123456789abcdef"),
    ]
    headers = text(b":a", b"1") + b"".join(others) + text(b":b", "é".encode())
    (found,) = Frames().feed(frame(headers, b""))
    assert found.headers == {b":a": b"1", b":b": "é".encode()}


@pytest.mark.parametrize("rest", [b"\x05ab", b"\x01a\x0a", b"\x01a\x07\x00", b"\x01a"])
def test_headers_that_cannot_be_read_end_the_headers_only(rest: bytes) -> None:
    (found,) = Frames().feed(frame(text(b":a", b"1") + rest, b"{}"))
    assert found == Frame({b":a": b"1"}, b"{}")


def test_frames_are_found_wherever_the_reads_are_cut() -> None:
    data = frame(text(b":event-type", b"x"), b"1") + frame(b"", b"22") + frame(b"", b"333")
    expected = [Frame({b":event-type": b"x"}, b"1"), Frame({}, b"22"), Frame({}, b"333")]
    for cut in range(len(data) + 1):
        frames = Frames()
        assert frames.feed(data[:cut]) + frames.feed(data[cut:]) == expected
        assert frames.pending == 0
    frames = Frames()
    assert [found for i in range(len(data)) for found in frames.feed(data[i : i + 1])] == expected


def test_every_flipped_bit_is_noticed() -> None:
    data = frame(text(b":event-type", b"x"), b"{}")
    for bit in range(8 * len(data)):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        frames = Frames()
        assert frames.feed(bytes(broken)) == []
        assert frames.broken


def test_nothing_comes_after_a_broken_frame() -> None:
    data = frame(b"", b"{}")
    frames = Frames()
    assert frames.feed(data + b"\x00" * 16 + data) == [Frame({}, b"{}")]
    assert frames.broken
    assert frames.feed(data) == []
    assert frames.pending == 0


def test_a_length_that_cannot_be_is_broken_even_with_its_checksum_right() -> None:
    for total, headers in ((15, 0), (16, 1), (0, 0)):
        prelude = struct.pack(">II", total, headers)
        frames = Frames()
        assert frames.feed(prelude + struct.pack(">I", crc32(prelude))) == []
        assert frames.broken


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_taken(data: bytes, cut: int) -> None:
    frames = Frames()
    frames.feed(data[:cut])
    frames.feed(data[cut:])


@settings(deadline=None)
@given(st.binary(max_size=64), st.binary(max_size=64))
def test_any_headers_are_taken(headers: bytes, body: bytes) -> None:
    (found,) = Frames().feed(frame(headers, body))
    assert found.payload == body
