"""Texts of Protobuf values for the compiled loops: UTF-8, replaced bytes, names of enums.

Text lies at an address, because names of enums and defaults lie beside the data. Each function
checks the room of a column before it writes, and returns NO_ROOM for too little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import copy, row_of
from kfetch.formats.columns.intrinsics import at_address, called, inlined, int32s, word
from kfetch.formats.columns.node_table import DATA, ENDS, ROOM, SIZE
from kfetch.formats.columns.slot_loops import row_with
from kfetch.formats.protobuf.field_table import (
    ENUM_NUMBER,
    ENUM_WIDTH,
    NAME_ADDRESS,
    NAME_BYTES,
    NO_ROOM,
)

_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # 0x8080808080808080
_DIGITS = 11  # of a number of 32 bits, with its sign
_REPLACED = 3  # bytes of U+FFFD


@inlined
def _continues(text: Any, at: int, end: int) -> Any:
    return at < end and text[at] & 0xC0 == 0x80


@called
def _character(text: Any, at: Any, end: Any) -> Any:
    """Returns the bytes of the character at a position.

    Below 0: so many bytes become one U+FFFD, as in Java's ``new String(bytes, UTF_8)``. At the
    end of the text, Java replaces all that is left at once.
    """
    first = np.int64(text[at])
    second = np.int64(text[at + 1]) if at + 1 < end else np.int64(0)
    left = end - at
    if first < 0x80:
        return np.int64(1)
    if first < 0xC2 or first > 0xF4:
        return np.int64(-1)
    if first < 0xE0:
        return np.int64(2) if _continues(text, at + 1, end) else np.int64(-1)
    low = (first == 0xE0 and second < 0xA0) or (first == 0xF0 and second < 0x90)
    if left > 1 and (second & 0xC0 != 0x80 or low or (first == 0xF4 and second > 0x8F)):
        return np.int64(-1)
    size = 3 if first < 0xF0 else 4
    if left < size:
        if left == 3 and not _continues(text, at + 2, end):
            return np.int64(-2)
        return -left
    if not _continues(text, at + 2, end):
        return np.int64(-2)
    if size == 3:
        return np.int64(-3) if first == 0xED and second > 0x9F else np.int64(3)
    return np.int64(4) if _continues(text, at + 3, end) else np.int64(-3)


@called
def is_utf8_at(address: int, size: Any) -> Any:
    """Returns whether text is UTF-8."""
    text, at = at_address(address), np.int64(0)
    while at < size:
        if at + 8 <= size and word(text, at) & _HIGH_BITS == 0:
            at += 8
            continue
        step = _character(text, at, size)
        if step < 0:
            return False
        at += step
    return True


@inlined
def put_text(node: Any, slot: int, address: int, size: int) -> Any:
    """Writes text into a slot."""
    start = node[SIZE]
    if size > node[ROOM] - start:
        return np.int64(NO_ROOM)
    copy(at_address(node[DATA]), start, at_address(address), np.int64(0), size)
    node[SIZE] = start + size
    int32s(node[ENDS])[slot + 1] = start + size
    return np.int64(0)


@called
def put_java_text(node: Any, slot: int, address: int, size: Any) -> Any:
    """Writes text with U+FFFD for what is not UTF-8."""
    if is_utf8_at(address, size):
        return put_text(node, slot, address, size)
    to_at = node[SIZE]
    if _REPLACED * size > node[ROOM] - to_at:
        return np.int64(NO_ROOM)
    to, text, at = at_address(node[DATA]), at_address(address), np.int64(0)
    while at < size:
        step = _character(text, at, size)
        if step < 0:
            to[to_at] = 0xEF
            to[to_at + 1] = 0xBF
            to[to_at + 2] = 0xBD
            to_at += _REPLACED
            at -= step
            continue
        for i in range(step):
            to[to_at + i] = text[at + i]
        to_at += step
        at += step
    node[SIZE] = to_at
    int32s(node[ENDS])[slot + 1] = to_at
    return np.int64(0)


@called
def enum_row(enums: Any, first: Any, number: Any) -> Any:
    """Returns the row of a number of an enum; -1 without one."""
    count = row_of(enums, first, ENUM_WIDTH)[ENUM_NUMBER]
    if 0 <= number < count:  # most enums count from 0 on
        guess = first + 1 + number
        if row_of(enums, guess, ENUM_WIDTH)[ENUM_NUMBER] == number:
            return guess
    return row_with(enums, first + 1, count, ENUM_WIDTH, number)


@called
def put_enum(enums: Any, first: Any, number: Any, node: Any, slot: int) -> Any:
    """Writes an enum's name. A number without a name gets the one that Java gives it."""
    found = enum_row(enums, first, number)
    if found >= 0:
        row = row_of(enums, found, ENUM_WIDTH)
        return put_text(node, slot, row[NAME_ADDRESS], row[NAME_BYTES])
    head = row_of(enums, first, ENUM_WIDTH)
    start, size = node[SIZE], head[NAME_BYTES]
    if size + _DIGITS > node[ROOM] - start:
        return np.int64(NO_ROOM)
    to = at_address(node[DATA])
    copy(to, start, at_address(head[NAME_ADDRESS]), np.int64(0), size)
    end = _put_number(number, to, start + size)
    node[SIZE] = end
    int32s(node[ENDS])[slot + 1] = end
    return np.int64(0)


@called
def _put_number(number: Any, to: Any, at: Any) -> Any:
    """Writes a number of 32 bits in decimal. Returns the position behind it."""
    if number < 0:
        to[at] = 45
        at += 1
        number = -number
    digits, rest = np.int64(1), number // 10
    while rest > 0:
        rest //= 10
        digits += 1
    for i in range(digits):
        to[at + digits - 1 - i] = 48 + number % 10
        number //= 10
    return at + digits
