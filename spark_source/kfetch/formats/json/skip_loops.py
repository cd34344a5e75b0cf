"""Values of JSON that no column wants, and values that a text column takes as JSON.

The grammar is checked as strictly as for all others. Positions are bytes. A function that stops at
text which ``reference`` must decide about returns UNSURE.
"""

from __future__ import annotations

from typing import Any

from kfetch.compiled.pointers import copy
from kfetch.formats.columns.intrinsics import (
    called,
    copy16,
    high_bits16,
    inlined,
    special16,
    trailing_zeros,
)
from kfetch.formats.columns.node_table import NAME_LENGTH_MAX, SLACK
from kfetch.formats.json.loop_tables import STRING_LENGTH_MAX
from kfetch.formats.json.number_loops import UNSURE, integer, is_digit
from kfetch.formats.json.text_loops import (
    BACKSLASH,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    FALSE,
    MINUS,
    NO_ROOM,
    NULL,
    OPEN,
    OPEN_LIST,
    PLUS,
    POINT,
    QUOTE,
    TRUE,
    ZERO,
    E,
    is_utf8,
    is_word,
    skip_space,
    skip_string,
)

_DIGITS_MAX = 500  # of a number that is skipped; Spark refuses more than 1000
_LEVELS_MAX = 62  # one bit each in an int64


@inlined
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


@inlined
def _skip_scalar(data: Any, at: int, end: int) -> Any:
    byte = data[at]
    if byte == QUOTE:
        return skip_string(data, at + 1, end)
    if is_word(data, at, NULL) or is_word(data, at, TRUE):
        return at + 4
    if byte == 102 and is_word(data, at + 1, FALSE):
        return at + 5
    return _skip_number(data, at, end)


@inlined
def _skip_name(data: Any, at: int, end: int) -> Any:
    """Returns the position of a value behind its name."""
    if data[at] != QUOTE:
        return UNSURE
    start = at
    at = skip_string(data, at + 1, end)
    if at < 0 or at - start > NAME_LENGTH_MAX:
        return UNSURE
    at = skip_space(data, at, end)
    if data[at] != COLON:
        return UNSURE
    return skip_space(data, at + 1, end)


@called
def skip_value(data: Any, at: int, end: int) -> Any:  # noqa: C901
    """Returns the position behind a value of any kind, whose grammar is checked."""
    depth, kinds = 0, 0  # a bit of ``kinds`` for each level: 1 for an object
    while at < end:
        byte = data[at]
        if byte == OPEN or byte == OPEN_LIST:  # noqa: SIM109
            if depth == _LEVELS_MAX:
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


@called
def has_long_string(data: Any, at: int, end: int) -> Any:
    """Returns whether a string of a document may have more characters than Jackson reads."""
    while at < end:
        after = at + 1
        if data[at] == QUOTE:
            after = skip_string(data, after, end)
            if after < 0 or after - at - 2 > STRING_LENGTH_MAX:
                return True
        at = after
    return False


# Values as text, in the form in which Jackson writes them.


@called
def _copy_string(data: Any, at: int, end: int, to: Any, to_at: int, room: int) -> Any:
    """Copies a string with its quotation marks. Returns both positions behind it."""
    start, high = to_at, 0
    to[to_at] = QUOTE
    at += 1
    to_at += 1
    while at < end:
        if to_at + SLACK > room:
            return NO_ROOM, to_at
        copy16(to, to_at, data, at)
        stops, highs = special16(data, at), high_bits16(data, at)
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
            to[to_at] = QUOTE
            if high != 0 and not _is_plain(to, start, to_at):
                return UNSURE, to_at
            return at + 1, to_at + 1
        if data[at] != BACKSLASH or not _is_kept_escape(data[at + 1]):
            return UNSURE, to_at
        to[to_at], to[to_at + 1] = data[at], data[at + 1]
        at += 2
        to_at += 2
    return UNSURE, to_at


@inlined
def _is_kept_escape(byte: Any) -> Any:
    """Returns whether Jackson writes the same escape that it reads: for ", \\, b, f, n, r, t."""
    return byte in (QUOTE, BACKSLASH, 98, 102, 110, 114, 116)


@called
def _is_plain(data: Any, at: int, end: int) -> Any:
    """Returns whether bytes are UTF-8 without characters that Jackson writes as escapes."""
    for i in range(at, end):
        if data[i] >= 0xF0:
            return False
    return is_utf8(data, at, end)


@called
def _number_end(data: Any, at: int) -> Any:
    """Returns the position behind a number that Jackson writes as it stands; UNSURE for others.

    Those are short integers, and numbers with few digits between 0.001 and 10,000,000.
    """
    start = at
    value, after = integer(data, at)
    if after >= 0:
        return after if value != 0 or data[start] != MINUS else UNSURE
    at += data[at] == MINUS
    whole = at
    while is_digit(data[at]):
        at += 1
        if at - whole > 7:
            return UNSURE
    if at == whole or data[at] != POINT or (data[whole] == ZERO and at > whole + 1):
        return UNSURE
    fraction = at + 1
    at = fraction
    while is_digit(data[at]):
        at += 1
        if at - whole > 15:
            return UNSURE
    if at == fraction or data[at] | 32 == E:
        return UNSURE
    if at == fraction + 1 and data[fraction] == ZERO:
        return at
    small = data[whole] == ZERO and data[fraction] == ZERO and data[fraction + 1] == ZERO
    if data[at - 1] == ZERO or (small and (at == fraction + 2 or data[fraction + 2] == ZERO)):
        return UNSURE
    return at


@called
def _copy_scalar(data: Any, at: int, end: int, to: Any, to_at: int, room: int) -> Any:
    if data[at] == QUOTE:
        return _copy_string(data, at, end, to, to_at, room)
    start = at
    if is_word(data, at, NULL) or is_word(data, at, TRUE):
        at += 4
    elif data[at] == 102 and is_word(data, at + 1, FALSE):
        at += 5
    else:
        at = _number_end(data, at)
        if at < 0:
            return at, to_at
    copy(to, to_at, data, start, at - start)
    return at, to_at + at - start


@called
def _copy_name(data: Any, at: int, end: int, to: Any, to_at: int, room: int) -> Any:
    """Copies a name and its colon. Returns the position of the value."""
    if data[at] != QUOTE:
        return UNSURE, to_at
    start = at
    at, to_at = _copy_string(data, at, end, to, to_at, room)
    if at < 0 or at - start > NAME_LENGTH_MAX:
        return at if at < 0 else UNSURE, to_at
    at = skip_space(data, at, end)
    if data[at] != COLON:
        return UNSURE, to_at
    to[to_at] = COLON
    return skip_space(data, at + 1, end), to_at + 1


@called
def copy_value(  # noqa: C901
    data: Any, at: int, end: int, to: Any, to_at: int, room: int
) -> Any:
    """Copies a value of any kind as compact JSON. Returns both positions behind it."""
    depth, kinds = 0, 0  # as in ``skip_value``
    while at < end:
        if to_at + 2 * SLACK > room:
            return NO_ROOM, to_at
        byte = data[at]
        if byte == OPEN or byte == OPEN_LIST:  # noqa: SIM109
            if depth == _LEVELS_MAX:
                return UNSURE, to_at
            depth += 1
            kinds = kinds << 1 | (byte == OPEN)
            to[to_at] = byte
            to_at += 1
            at = skip_space(data, at + 1, end)
            if data[at] != (CLOSE if byte == OPEN else CLOSE_LIST):
                if byte == OPEN:
                    at, to_at = _copy_name(data, at, end, to, to_at, room)
                    if at < 0:
                        return at, to_at
                continue
        else:
            at, to_at = _copy_scalar(data, at, end, to, to_at, room)
            if at < 0 or depth == 0:
                return at, to_at
            at = skip_space(data, at, end)
        if to_at + 2 * SLACK > room:
            return NO_ROOM, to_at
        while data[at] != COMMA:
            close = CLOSE if kinds & 1 else CLOSE_LIST
            if data[at] != close or at >= end:
                return UNSURE, to_at
            to[to_at] = close
            at += 1
            to_at += 1
            depth -= 1
            kinds >>= 1
            if depth == 0:
                return at, to_at
            at = skip_space(data, at, end)
        to[to_at] = COMMA
        to_at += 1
        at = skip_space(data, at + 1, end)
        if kinds & 1:
            at, to_at = _copy_name(data, at, end, to, to_at, room)
            if at < 0:
                return at, to_at
    return UNSURE, to_at
