"""Strings and unknown values of JSON for the compiled loops, and the columns' slots.

Positions are bytes. A function that stops at text which ``exact`` must decide about returns UNSURE.
Everything is read at most SLACK bytes behind ``end``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.values.intrinsics import (
    at_address,
    copy16,
    high_bits16,
    int32s,
    special16,
    trailing_zeros,
    word,
)
from kfetch.values.layout import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CHILDREN,
    COUNT,
    DATA,
    DATE,
    DECIMAL,
    ENDS,
    FIRST_CHILD,
    FLAT,
    FLAT_COUNT,
    FLOAT,
    INT,
    KIND,
    MAP,
    NODE_WIDTH,
    SHORT,
    SIZE,
    SLACK,
    STRING,
    STRUCT,
    VALID,
)
from kfetch.values.number_loops import UNSURE, called, compiled, is_digit

__all__ = ["NO_ROOM", "copy_string", "null_slots", "set_valid", "skip_space", "skip_value"]

NO_ROOM = -3
"""The buffer of a column is full."""

QUOTE, BACKSLASH, COMMA, COLON = ord('"'), ord("\\"), ord(","), ord(":")
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
MINUS, POINT, ZERO, E, PLUS = ord("-"), ord("."), ord("0"), ord("e"), ord("+")
NULL = int.from_bytes(b"null", "little")
TRUE = int.from_bytes(b"true", "little")
FALSE = int.from_bytes(b"alse", "little")
_LOW_WORD = 0xFFFFFFFF
_DIGITS_MAX = 500  # of a number that is skipped; Spark refuses more than 1000


@compiled
def skip_space(data: Any, at: int, end: int) -> Any:
    """Returns the next position that is no space."""
    while data[at] <= 32 and at < end:
        byte = data[at]
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            return at
        at += 1
    return at


@compiled
def is_word(data: Any, at: int, text: int) -> Any:
    """Returns whether four bytes are the ones of a word."""
    return (word(data, at) & _LOW_WORD) == text


# Escapes.


@compiled
def _hex_digit(byte: Any) -> Any:
    """Returns the value of a hexadecimal digit, -1 for another byte."""
    if is_digit(byte):
        return np.int64(byte) - ZERO
    letter = np.int64(byte) | 32
    return letter - 87 if 97 <= letter <= 102 else -1


@called
def _hex(data: Any, at: int) -> Any:
    """Returns the number of four hexadecimal digits, or -1."""
    value = 0
    for i in range(4):
        digit = _hex_digit(data[at + i])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


@called
def _plain_escape(byte: Any) -> Any:
    """Returns the byte that stands behind a backslash for itself or for a control, or -1."""
    code = np.int64(byte)
    if code == QUOTE or code == BACKSLASH or code == 47:
        return code
    if code == 110:
        return 10
    if code == 116:
        return 9
    if code == 114:
        return 13
    if code == 98:
        return 8
    return 12 if code == 102 else -1


@called
def _unescape(data: Any, at: int, to: Any, to_at: int) -> Any:
    """Writes the character of the escape behind a backslash. Returns both positions behind it."""
    code = _plain_escape(data[at])
    if code >= 0:
        to[to_at] = code
        return at + 1, to_at + 1
    if data[at] != 117:
        return UNSURE, to_at
    code = _hex(data, at + 1)
    at += 5
    if code < 0 or 0xDC00 <= code <= 0xDFFF:
        return UNSURE, to_at
    if 0xD800 <= code <= 0xDBFF:
        low = _hex(data, at + 2)
        if data[at] != BACKSLASH or data[at + 1] != 117 or not 0xDC00 <= low <= 0xDFFF:
            return UNSURE, to_at
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    return at, _encode(code, to, to_at)


@called
def _encode(code: int, to: Any, at: int) -> Any:
    """Writes a character in UTF-8. Returns the position behind it."""
    if code < 0x80:
        to[at] = code
        return at + 1
    if code < 0x800:
        to[at] = 0xC0 | code >> 6
        to[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        to[at] = 0xE0 | code >> 12
        to[at + 1] = 0x80 | code >> 6 & 0x3F
        to[at + 2] = 0x80 | code & 0x3F
        return at + 3
    to[at] = 0xF0 | code >> 18
    to[at + 1] = 0x80 | code >> 12 & 0x3F
    to[at + 2] = 0x80 | code >> 6 & 0x3F
    to[at + 3] = 0x80 | code & 0x3F
    return at + 4


@called
def is_utf8(data: Any, at: int, end: int) -> Any:
    """Returns whether bytes are UTF-8."""
    while at < end:
        first = np.int64(data[at])
        if first < 0x80:
            at += 1
            continue
        second = np.int64(data[at + 1])
        if first < 0xC2 or first > 0xF4 or second & 0xC0 != 0x80:
            return False
        size = 2 + (first >= 0xE0) + (first >= 0xF0)
        if at + size > end:
            return False
        if size > 2 and data[at + 2] & 0xC0 != 0x80:
            return False
        if size > 3 and data[at + 3] & 0xC0 != 0x80:
            return False
        low = (first == 0xE0 and second < 0xA0) or (first == 0xF0 and second < 0x90)
        if low or (first == 0xED and second > 0x9F) or (first == 0xF4 and second > 0x8F):
            return False
        at += size
    return True


# Strings.


@compiled
def copy_string(data: Any, at: int, end: int, to: Any, to_at: int, room: int) -> Any:
    """Copies the text of a string. Returns the position behind its end, and behind the copy.

    ``at``: behind the opening quotation mark. ``room``: the end of the bytes that may be written.
    """
    start, high = to_at, 0
    while at < end:
        if to_at + SLACK > room:
            return NO_ROOM, to_at
        copy16(to, to_at, data, at)
        stops = special16(data, at)
        highs = high_bits16(data, at)
        if stops == 0:
            high |= highs
            at += 16
            to_at += 16
            continue
        count = trailing_zeros(stops)
        high |= highs & ((1 << count) - 1)
        at += count
        to_at += count
        if data[at] == QUOTE:
            if high != 0 and not is_utf8(to, start, to_at):
                return UNSURE, to_at
            return at + 1, to_at
        if data[at] != BACKSLASH:
            return UNSURE, to_at
        at, to_at = _unescape(data, at + 1, to, to_at)
        if at < 0:
            return at, to_at
    return UNSURE, to_at


@compiled
def skip_string(data: Any, at: int, end: int) -> Any:
    """Returns the position behind a string. ``at``: behind the opening quotation mark."""
    while at < end:
        stops = special16(data, at)
        if stops == 0:
            at += 16
            continue
        at += trailing_zeros(stops)
        if data[at] == QUOTE:
            return at + 1
        if data[at] != BACKSLASH:
            return UNSURE
        if _plain_escape(data[at + 1]) >= 0:
            at += 2
        elif data[at + 1] == 117 and _hex(data, at + 2) >= 0:
            at += 6
        else:
            return UNSURE
    return UNSURE


# Values that no column wants.


@compiled
def _skip_digits(data: Any, at: int, end: int) -> Any:
    while is_digit(data[at]) and at < end:
        at += 1
    return at


@called
def _skip_number(data: Any, at: int, end: int) -> Any:
    start = at
    at += data[at] == MINUS
    digits = at
    at = _skip_digits(data, at, end)
    if at == digits or (at > digits + 1 and data[digits] == ZERO):
        return UNSURE
    if data[at] == POINT:
        digits = at + 1
        at = _skip_digits(data, digits, end)
        if at == digits:
            return UNSURE
    if data[at] | 32 == E:
        at += 1
        at += data[at] == MINUS or data[at] == PLUS
        digits = at
        at = _skip_digits(data, at, end)
        if at == digits:
            return UNSURE
    return at if at - start < _DIGITS_MAX else UNSURE


@compiled
def _skip_scalar(data: Any, at: int, end: int) -> Any:
    byte = data[at]
    if byte == QUOTE:
        return skip_string(data, at + 1, end)
    if is_word(data, at, NULL) or is_word(data, at, TRUE):
        return at + 4
    if byte == 102 and is_word(data, at + 1, FALSE):
        return at + 5
    return _skip_number(data, at, end)


@compiled
def _skip_name(data: Any, at: int, end: int) -> Any:
    """Returns the position of a value behind its name."""
    if data[at] != QUOTE:
        return UNSURE
    start = at
    at = skip_string(data, at + 1, end)
    if at < 0 or at - start > 10_000:
        return UNSURE
    at = skip_space(data, at, end)
    if data[at] != COLON:
        return UNSURE
    return skip_space(data, at + 1, end)


@called
def skip_value(data: Any, at: int, end: int) -> Any:
    """Returns the position behind a value of any kind, whose grammar is checked."""
    depth, kinds = 0, 0  # a bit of ``kinds`` for each level: 1 for an object
    while at < end:
        byte = data[at]
        if byte == OPEN or byte == OPEN_LIST:
            if depth == 62:
                return UNSURE
            depth += 1
            kinds = kinds << 1 | (byte == OPEN)
            at = skip_space(data, at + 1, end)
            if data[at] != (CLOSE if byte == OPEN else CLOSE_LIST):
                if byte == OPEN:
                    at = _skip_name(data, at, end)
                    if at < 0:
                        return UNSURE
                continue
        else:
            at = _skip_scalar(data, at, end)
            if at < 0 or depth == 0:
                return at
            at = skip_space(data, at, end)
        while data[at] != COMMA:
            if data[at] != (CLOSE if kinds & 1 else CLOSE_LIST) or at >= end:
                return UNSURE
            at += 1
            depth -= 1
            kinds >>= 1
            if depth == 0:
                return at
            at = skip_space(data, at, end)
        at = skip_space(data, at + 1, end)
        if kinds & 1:
            at = _skip_name(data, at, end)
            if at < 0:
                return UNSURE
    return UNSURE


# Slots.


@compiled
def set_valid(node: Any, slot: int, valid: int) -> None:
    """Writes the bit of a slot. The bits above it in its byte are still free."""
    bits, at, bit = at_address(node[VALID]), slot >> 3, slot & 7
    bits[at] = (bits[at] & ((1 << bit) - 1)) | (valid << bit)


@compiled
def _width(kind: int) -> Any:
    """Returns the bytes of a value of a fixed width."""
    if kind == BYTE:
        return 1
    if kind == SHORT:
        return 2
    if kind == INT or kind == FLOAT or kind == DATE:
        return 4
    return 16 if kind == DECIMAL else 8


@called
def null_slots(nodes: Any, flat_nodes: Any, number: int) -> None:
    """Writes null into the next slot of a node, and of all fields inside it."""
    node = row_of(nodes, number, NODE_WIDTH)
    first, count = node[FLAT], node[FLAT_COUNT]
    for i in range(first, first + count):
        inner = row_of(nodes, flat_nodes[i], NODE_WIDTH)
        kind, slot = inner[KIND], inner[COUNT]
        set_valid(inner, slot, 0)
        inner[COUNT] = slot + 1
        if kind == STRING or kind == BINARY:
            int32s(inner[ENDS])[slot + 1] = inner[SIZE]
        elif kind == ARRAY or kind == MAP:
            child = row_of(nodes, inner[FIRST_CHILD], NODE_WIDTH)
            int32s(inner[ENDS])[slot + 1] = child[COUNT]
        elif kind == BOOLEAN:
            bits, at, bit = at_address(inner[DATA]), slot >> 3, slot & 7
            bits[at] = bits[at] & ((1 << bit) - 1)
        elif kind != STRUCT:
            width = _width(kind)
            values = at_address(inner[DATA])
            for j in range(slot * width, (slot + 1) * width):
                values[j] = 0


@called
def rewind(nodes: Any, node_count: int, row: int) -> None:
    """Takes back everything that was written for document ``row`` and the ones behind it."""
    row_of(nodes, 0, NODE_WIDTH)[COUNT] = row
    for number in range(node_count):
        node = row_of(nodes, number, NODE_WIDTH)
        kind, slot = node[KIND], node[COUNT]
        if kind == STRING or kind == BINARY:
            node[SIZE] = np.int64(int32s(node[ENDS])[slot])
        inner = slot
        if kind == ARRAY or kind == MAP:
            inner = np.int64(int32s(node[ENDS])[slot])
        for i in range(node[FIRST_CHILD], node[FIRST_CHILD] + node[CHILDREN]):
            row_of(nodes, i, NODE_WIDTH)[COUNT] = inner
