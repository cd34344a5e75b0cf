"""Spaces, words and strings of JSON for the compiled loops.

Positions are bytes. A function that stops at text which ``reference`` must decide about returns
UNSURE. Everything is read at most SLACK bytes behind ``end``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.formats.columns.intrinsics import (
    called,
    copy16,
    high_bits16,
    inlined,
    special16,
    trailing_zeros,
    word,
)
from kfetch.formats.columns.node_table import SLACK
from kfetch.formats.json.number_loops import UNSURE, is_digit

NO_ROOM = -3
"""The buffer of a column is full."""

QUOTE, BACKSLASH, COMMA, COLON = ord('"'), ord("\\"), ord(","), ord(":")
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
MINUS, POINT, ZERO, E, PLUS = ord("-"), ord("."), ord("0"), ord("e"), ord("+")
NULL = int.from_bytes(b"null", "little")
TRUE = int.from_bytes(b"true", "little")
FALSE = int.from_bytes(b"alse", "little")
_LOW_WORD = 0xFFFFFFFF


@inlined
def skip_space(data: Any, at: int, end: int) -> Any:
    """Returns the next position that is no space."""
    while data[at] <= 32 and at < end:
        byte = data[at]
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            return at
        at += 1
    return at


@inlined
def is_word(data: Any, at: int, text: int) -> Any:
    """Returns whether four bytes are the ones of a word."""
    return (word(data, at) & _LOW_WORD) == text


# Escapes.


@inlined
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
    if code in (QUOTE, BACKSLASH, 47):
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
def is_utf8(data: Any, at: Any, end: int) -> Any:
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


@inlined
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


@inlined
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
