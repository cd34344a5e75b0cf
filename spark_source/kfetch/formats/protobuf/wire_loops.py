"""Protobuf's wire format for the compiled loops: numbers, lengths, and unknown fields.

Each function gets the end of the bytes that it may read. It returns the position behind what it
read, or a reason as a number below zero. The rules are those of Google's Java library, which Spark
uses: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import address_of
from kfetch.formats.columns.intrinsics import called, inlined, word
from kfetch.formats.protobuf.field_table import (
    BAD_GROUP,
    BAD_LENGTH,
    BAD_WIRE,
    BOOL_TYPE,
    BYTES_TYPE,
    DEPTH_MAX,
    DOUBLE_TYPE,
    ENUM_TYPE,
    FIXED32_TYPE,
    FIXED64_TYPE,
    FLOAT_TYPE,
    GROUP_END,
    GROUP_START,
    INT32_TYPE,
    LONG_VARINT,
    SFIXED32_TYPE,
    SFIXED64_TYPE,
    SINT32_TYPE,
    SINT64_TYPE,
    SIZED_WIRE,
    STRING_TYPE,
    TOO_DEEP,
    TRUNCATED,
    UINT32_TYPE,
    VARINT_WIRE,
    WIRE32,
    WIRE64,
    ZERO_FIELD,
)

_LOW_WORD = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFFFFFFFFFF


@called
def _long_varint(data: Any, at: Any, end: Any) -> Any:
    """Reads up to ten bytes. Java takes bit 63 for set if there is a tenth, whatever it says."""
    value, shift = np.int64(0), np.int64(0)
    while shift < 64:
        if at >= end:
            return value, np.int64(-TRUNCATED)
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F if shift < 63 else np.int64(1)) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, np.int64(-LONG_VARINT)


@inlined
def varint(data: Any, at: Any, end: Any) -> Any:
    """Returns a number of variable length, as 64 bits."""
    if at < end and data[at] < 0x80:
        return np.int64(data[at]), at + 1
    return _long_varint(data, at, end)


@inlined
def tag(data: Any, at: Any, end: Any) -> Any:
    """Returns a field's number and wire type. Bits above 32 don't count."""
    value, at = varint(data, at, end)
    value &= _LOW_WORD
    if at >= 0 and value >> 3 == 0:
        at = np.int64(-ZERO_FIELD)
    return value, at


@inlined
def length(data: Any, at: Any, end: Any) -> Any:
    """Returns a length that fits before ``end``. Bits above 32 don't count."""
    value, at = varint(data, at, end)
    value = _signed32(value)
    if at >= 0:
        if value < 0:
            at = np.int64(-BAD_LENGTH)
        elif value > end - at:
            at = np.int64(-TRUNCATED)
    return value, at


@inlined
def _signed32(value: int) -> Any:
    return (value << 32) >> 32


@called
def _fixed(data: Any, at: Any, end: Any, size: int) -> Any:
    """Returns a number of four bytes, with its sign, or of eight."""
    if size > end - at:
        return np.int64(0), np.int64(-TRUNCATED)
    if size == 8:
        return word(data, at), at + 8
    value = np.int64(0)
    for i in range(4):
        value |= np.int64(data[at + i]) << (8 * i)
    return _signed32(value), at + 4


@inlined
def scalar(data: Any, at: Any, end: Any, kind: int) -> Any:
    """Returns a value of a type as bits, or the address and the size of text."""
    size = np.int64(0)
    if kind in (STRING_TYPE, BYTES_TYPE):
        size, at = length(data, at, end)
        value = address_of(data) + at
        if at >= 0:
            at += size
        return value, size, at
    if kind in (DOUBLE_TYPE, FIXED64_TYPE, SFIXED64_TYPE):
        value, at = _fixed(data, at, end, 8)
        return value, size, at
    if kind in (FLOAT_TYPE, FIXED32_TYPE, SFIXED32_TYPE):
        value, at = _fixed(data, at, end, 4)
        return value, size, at
    value, at = varint(data, at, end)
    if kind in (INT32_TYPE, UINT32_TYPE, ENUM_TYPE):
        value = _signed32(value)
    elif kind == BOOL_TYPE:
        value = np.int64(value != 0)
    elif kind == SINT32_TYPE:
        value &= _LOW_WORD
        value = (value >> 1) ^ -(value & 1)
    elif kind == SINT64_TYPE:
        value = ((value >> 1) & _POSITIVE) ^ -(value & 1)
    return value, size, at


@called
def skip_field(  # noqa: C901
    data: Any, at: Any, end: Any, tag_value: int, depth: int, groups: Any
) -> Any:
    """Returns the position behind an unknown field. ``at``: behind its tag.

    ``groups``: room for the numbers of DEPTH_MAX groups inside each other.
    """
    level = np.int64(0)
    while True:
        wire = tag_value & 7
        if wire == VARINT_WIRE:
            _, at = varint(data, at, end)
        elif wire == WIRE64:
            _, at = _fixed(data, at, end, 8)
        elif wire == SIZED_WIRE:
            size, at = length(data, at, end)
            if at >= 0:
                at += size
        elif wire == WIRE32:
            _, at = _fixed(data, at, end, 4)
        elif wire == GROUP_START:
            if depth + level >= DEPTH_MAX:
                return np.int64(-TOO_DEEP)
            groups[level] = tag_value >> 3
            level += 1
        elif wire == GROUP_END:
            if level == 0 or groups[level - 1] != tag_value >> 3:
                return np.int64(-BAD_GROUP)
            level -= 1
        else:
            return np.int64(-BAD_WIRE)
        if at < 0 or level == 0:
            return at
        if at >= end:
            return np.int64(-BAD_GROUP)
        tag_value, at = tag(data, at, end)
        if at < 0:
            return at
