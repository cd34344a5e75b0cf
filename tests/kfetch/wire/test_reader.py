"""The frame reader: every primitive whole, and cut at every byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.wire.reader import Reader

Read = Callable[[Reader], Any]

# Name, flexible, bytes, how to read them, the value.
SAMPLES: list[tuple[str, bool, bytes, Read, Any]] = [
    ("int16", False, b"\xff\xfe", Reader.int16, -2),
    ("int32", False, b"\x7f\xff\xff\xff", Reader.int32, 2**31 - 1),
    ("int64", False, b"\x80" + b"\0" * 7, Reader.int64, -(2**63)),
    ("uuid", True, bytes(range(16)), Reader.uuid, UUID(bytes=bytes(range(16)))),
    ("layout", False, b"\0\1\0\0\0\2", lambda r: r.unpack(struct.Struct(">hi")), (1, 2)),
    ("string", False, b"\0\2h\xc3", lambda r: r.unpack(struct.Struct(">hH")), (2, 0x68C3)),
    ("text", False, "\0\3hé".encode(), Reader.string, "hé"),
    ("empty text", False, b"\0\0", Reader.string, ""),
    ("no text", False, b"\xff\xff", Reader.nullable_string, None),
    ("compact text", True, "\4hé".encode(), Reader.string, "hé"),
    ("compact empty", True, b"\1", Reader.string, ""),
    ("compact null", True, b"\0", Reader.nullable_string, None),
    ("long compact", True, b"\xc9\x01" + b"x" * 200, Reader.string, "x" * 200),
    ("bytes", False, b"\0\0\0\3abc", Reader.bytes, b"abc"),
    ("null bytes", False, b"\xff\xff\xff\xff", Reader.bytes, b""),
    ("compact bytes", True, b"\4abc", Reader.bytes, b"abc"),
    ("compact null bytes", True, b"\0", Reader.bytes, b""),
    (
        "array",
        False,
        b"\0\0\0\2\0\1\0\2",
        lambda r: [r.int16() for _ in r.array()],
        [1, 2],
    ),
    ("null array", False, b"\xff\xff\xff\xff", lambda r: list(r.array()), []),
    ("compact array", True, b"\3\0\1\0\2", lambda r: [r.int16() for _ in r.array()], [1, 2]),
    ("compact null array", True, b"\0", lambda r: list(r.array()), []),
    ("no tags", True, b"\0", Reader.tags, {}),
    ("tags", True, b"\2\0\1a\x85\1\2bc", Reader.tags, {0: b"a", 133: b"bc"}),
]
SAMPLE = pytest.mark.parametrize(
    ("flexible", "data", "read", "value"), [row[1:] for row in SAMPLES], ids=[r[0] for r in SAMPLES]
)


@SAMPLE
def test_whole(flexible: bool, data: bytes, read: Read, value: Any) -> None:
    """A value is read to its last byte."""
    reader = Reader(memoryview(data), flexible=flexible)

    assert value == read(reader)
    assert 0 == reader.remaining_bytes


@SAMPLE
def test_bytes_behind_stay(flexible: bool, data: bytes, read: Read, value: Any) -> None:
    """A value is read no further than its last byte."""
    reader = Reader(memoryview(data + b"\x7f" * 9), flexible=flexible)

    assert value == read(reader)
    assert 9 == reader.remaining_bytes


@SAMPLE
def test_cut_at_every_byte(flexible: bool, data: bytes, read: Read, value: Any) -> None:
    """A value that is cut anywhere is one of the three errors that the reader promises."""
    for cut in range(len(data)):
        reader = Reader(memoryview(data)[:cut], flexible=flexible)
        with pytest.raises((ValueError, IndexError, struct.error)):
            read(reader)


def test_no_tags_in_old_versions() -> None:
    """Versions before KIP-482 have no tagged fields, not even a count of them."""
    reader = Reader(memoryview(b"\1\0\1a"), flexible=False)

    assert {} == reader.tags()
    assert 4 == reader.remaining_bytes


def test_null_string_is_refused() -> None:
    """A string that must not be null is no empty one."""
    with pytest.raises(ValueError, match="a string is null"):
        Reader(memoryview(b"\xff\xff"), flexible=False).string()


def test_unicode_is_checked() -> None:
    """Bytes that are no UTF-8 are an error, not replaced."""
    with pytest.raises(ValueError, match="utf-8"):
        Reader(memoryview(b"\0\1\xff"), flexible=False).string()


def test_overlong_varint() -> None:
    """An unsigned varint ends after five bytes."""
    with pytest.raises(ValueError, match="more than five bytes"):
        Reader(memoryview(b"\xff" * 9), flexible=True).bytes()


@pytest.mark.parametrize(
    ("flexible", "data"), [(False, b"\x7f\xff\xff\xff"), (True, b"\xff\xff\xff\xff\x0f")]
)
def test_lengths_are_not_trusted(flexible: bool, data: bytes) -> None:
    """A count or a size beyond the frame is refused before memory is view."""
    with pytest.raises(ValueError, match="array claims"):
        Reader(memoryview(data), flexible=flexible).array()
    with pytest.raises(ValueError, match="bytes are wanted"):
        Reader(memoryview(data), flexible=flexible).bytes()


@given(st.binary(max_size=60), st.booleans())
def test_views_not_copies(data: bytes, flexible: bool) -> None:
    """Bytes that are handed out are views into the frame."""
    reader = Reader(memoryview(data), flexible=flexible)
    try:
        view = reader.bytes()
    except (ValueError, IndexError, struct.error):
        return

    assert data is view.obj
    assert reader.remaining_bytes >= 0
