"""Confluent's wire format: the headers that name the writer's schema, for many values at once.

A value begins with a zero byte and the schema's id as 4 bytes, the highest one first. In Protobuf,
the place of the message in its file follows: a count and as many indexes, as zigzag varints. The
lone count 0 stands for the first message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kfetch.errors import KfetchError
from kfetch.records.arrow import Array

HEADERS_MAX = 1_000
"""Different headers in one batch. More than that are no headers."""
_ID_BYTES = 5
_NEGATIVE = 0x80
"""Ids are of Java's type int. A registry answers a larger one as it answers a wrong URL."""
_INDEXES_MAX = 32
_VARINT_BYTES_MAX = 5
_BYTES_MAX = _ID_BYTES + _VARINT_BYTES_MAX * (_INDEXES_MAX + 1)
_NULL = -1


class SchemaUnavailable(Exception):
    """Nobody can say now which schema a value has. This is no fault of the value."""

    def __init__(self, row: int, cause: KfetchError) -> None:
        """``row``: the number of the value in its column."""
        super().__init__(cause.message)
        self.row, self.cause = row, cause


class SchemaHeader(NamedTuple):
    """The start of some values, or the reason why they have no header."""

    id: int
    """The number of the writer's schema."""
    indexes: tuple[int, ...]
    """In Protobuf: the message's place in its file, and in the messages around it."""
    size: int
    """Bytes of the header; 0 if there is none."""
    damage: str = ""
    """Why this is no header; empty for a header."""
    at: int = 0
    """The byte of the value where the damage is."""


class Headers(NamedTuple):
    """The headers of a batch."""

    distinct: list[SchemaHeader]
    which: Array
    """int32: the number of each value's header in ``distinct``; below 0 for a null."""

    @property
    def sizes(self) -> Array:
        """int32: the bytes of each header in ``distinct``; a last 0 is for nulls."""
        return np.array([*(header.size for header in self.distinct), 0], np.int32)


def read_header(value: bytes, *, indexed: bool) -> SchemaHeader:
    """Returns the header of one value. ``indexed``: whether message indexes belong to it."""
    return _parsed(value, indexed)[0]


class _Likeness(NamedTuple):
    """What other values must have so that they have the same header, or the same damage."""

    start: int
    """So many first bytes are equal."""
    length: int = -1
    """They have so many bytes; below 0: any number."""
    least: int = 0
    """They have no fewer bytes."""


def _parsed(value: bytes, indexed: bool) -> tuple[SchemaHeader, _Likeness]:
    if not value:
        return _damaged("it is empty, so it is not in Confluent's wire format", 0), _Likeness(0, 0)
    if value[0] != 0:
        what = "its first byte is not 0, so it is not in Confluent's wire format"
        return _damaged(what, 0), _Likeness(1)
    size = len(value)
    if size < _ID_BYTES:
        return _damaged("it ends inside the id of its schema", size), _Likeness(1, size)
    if value[1] >= _NEGATIVE:
        return _damaged("the id of its schema is below 0", 1), _Likeness(2, least=_ID_BYTES)
    number = int.from_bytes(value[1:_ID_BYTES], "big")
    if not indexed:
        return SchemaHeader(number, (), _ID_BYTES), _Likeness(_ID_BYTES)
    return _with_indexes(value, number)


def _with_indexes(value: bytes, number: int) -> tuple[SchemaHeader, _Likeness]:
    count, at = _varint(value, _ID_BYTES)
    if at <= 0:
        return _cut(value, -at)
    if not 0 <= count <= _INDEXES_MAX:
        return _damaged("it has a wrong number of message indexes", _ID_BYTES), _Likeness(at)
    indexes = []
    for _ in range(count):
        start = at
        index, at = _varint(value, start)
        if at <= 0:
            return _cut(value, -at)
        if index < 0:
            return _damaged("it has a message index below 0", start), _Likeness(at)
        indexes.append(index)
    return SchemaHeader(number, tuple(indexes) or (0,), at), _Likeness(at)


def _cut(value: bytes, at: int) -> tuple[SchemaHeader, _Likeness]:
    if at == len(value):
        return _damaged("it ends inside its message indexes", at), _Likeness(at, at)
    return _damaged("a number of its message indexes is too long", at), _Likeness(at)


def _damaged(what: str, at: int) -> SchemaHeader:
    return SchemaHeader(0, (), 0, what, at)


def _varint(value: bytes, start: int) -> tuple[int, int]:
    """Returns a zigzag number and the position behind it, or minus the place of the damage."""
    number = 0
    for at in range(start, min(len(value), start + _VARINT_BYTES_MAX)):
        number |= (value[at] & 0x7F) << (7 * (at - start))
        if value[at] < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
    return 0, -min(len(value), start + _VARINT_BYTES_MAX)


def read_headers(
    data: memoryview | bytes, positions: Array, lengths: Array, *, indexed: bool
) -> Headers:
    """Returns the headers of values that lie in ``data``.

    ``positions``, ``lengths``: where each value starts, and its bytes; below 0 for a null. Values
    of one header are found together, so the time depends on the number of different headers.
    Raises KfetchError for more than HEADERS_MAX of them.
    """
    view = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
    which = np.full(len(positions), _NULL, np.int32)
    distinct: list[SchemaHeader] = []
    rest = np.flatnonzero(lengths >= 0)
    while len(rest):
        first = int(rest[0])
        start, length = int(positions[first]), int(lengths[first])
        prefix = view[start : start + min(length, _BYTES_MAX + 1)].tobytes()
        header, alike = _parsed(prefix, indexed)
        same = _begin_with(view, positions[rest], lengths[rest], prefix[: alike.start])
        same &= lengths[rest] >= alike.least
        if alike.length >= 0:
            same &= lengths[rest] == alike.length
        if len(distinct) >= HEADERS_MAX:
            raise KfetchError(
                f"the values of one batch have more than {HEADERS_MAX:,} different headers, so "
                "they are not in Confluent's wire format",
                action="remove valueRegistry or keyRegistry, or correct the producer",
            )
        which[rest[same]] = len(distinct)
        distinct.append(header)
        rest = rest[~same]
    return Headers(distinct, which)


def _begin_with(view: Array, positions: Array, lengths: Array, start: bytes) -> Array:
    """Returns which values begin with some bytes, compared in words of 4, 2 and 1 bytes."""
    same = lengths >= len(start)
    at = 0
    while at < len(start):
        width = next(size for size in (4, 2, 1) if size <= len(start) - at)
        count = len(view) - at - width + 1
        if count <= 0:
            return np.zeros(len(lengths), bool)
        # A number begins at each byte: no value is copied, and numpy checks each position.
        words: Array = np.ndarray((count,), f"<u{width}", view, at, (1,))
        word = int.from_bytes(start[at : at + width], "little")
        if same.all():
            same = words[positions] == word
        else:
            chosen = np.flatnonzero(same)
            same[chosen] = words[positions[chosen]] == word
        at += width
    return same
