"""Scalar values of JSON for the compiled loops: from text into a column's slot.

Each function writes one slot and returns the position behind the value. Or it returns MISMATCH,
UNSURE or NO_ROOM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.formats.columns.intrinsics import (
    at_address,
    called,
    float_from_bits,
    high_product,
    inlined,
    int32s,
    int64s,
    single_to_bits,
)
from kfetch.formats.columns.node_table import (
    BINARY,
    BOOLEAN,
    DATA,
    DATE,
    DECIMAL,
    DOUBLE,
    ENDS,
    FLOAT,
    INT,
    LONG,
    PRECISION,
    ROOM,
    SCALE,
    SHORT,
    SIZE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from kfetch.formats.columns.slot_loops import put_bit
from kfetch.formats.json.loop_tables import RAW, ZONE_RULES
from kfetch.formats.json.number_loops import MISMATCH, UNSURE, double_bits, integer, number_parts
from kfetch.formats.json.skip_loops import copy_value
from kfetch.formats.json.text_loops import FALSE, QUOTE, TRUE, copy_string, is_word
from kfetch.formats.json.time_loops import copy_base64, date, timestamp


@inlined
def _in_range(value: int, kind: int) -> Any:
    if kind == LONG:
        return True
    if kind == INT:
        return -(1 << 31) <= value < 1 << 31
    if kind == SHORT:
        return -(1 << 15) <= value < 1 << 15
    return -128 <= value < 256  # as Jackson has it: 255 becomes -1


@inlined
def _store(node: Any, slot: int, value: int, width: int) -> None:
    """Writes the low bytes of a number."""
    if width == 8:
        int64s(node[DATA])[slot] = value
    elif width == 4:
        int32s(node[DATA])[slot] = value
    else:
        values = at_address(node[DATA])
        values[slot * width] = value & 0xFF
        if width == 2:
            values[slot * 2 + 1] = value >> 8 & 0xFF


@inlined
def _integer_width(kind: int) -> Any:
    if kind == LONG:
        return 8
    if kind == INT:
        return 4
    return 2 if kind == SHORT else 1


@inlined
def _put_integer(data: Any, at: int, node: Any, kind: int, slot: int) -> Any:
    value, at = integer(data, at)
    if at >= 0:
        if not _in_range(value, kind):
            return MISMATCH
        _store(node, slot, value, _integer_width(kind))
    return at


@called
def _put_float(data: Any, at: int, node: Any, kind: int, slot: int, powers: Any) -> Any:
    if data[at] == QUOTE:
        return UNSURE
    value, digits, power, negative, is_integer, at = number_parts(data, at)
    if at < 0:
        return at
    bits, known = double_bits(value, digits, power, powers)
    if not known:
        return UNSURE
    if negative and not (is_integer and value == 0):
        bits |= -(1 << 63)
    if kind == DOUBLE:
        int64s(node[DATA])[slot] = bits
        return at
    exponent, low = (bits >> 52) & 0x7FF, bits & 0x1FFFFFFF
    # A float64 between two float32 must not be rounded again, and small float32 have fewer bits.
    if bits << 1 != 0 and (low == 0x10000000 or exponent < 1023 - 125 or exponent > 1023 + 126):
        return UNSURE
    int32s(node[DATA])[slot] = single_to_bits(np.float32(float_from_bits(bits)))
    return at


@called
def _put_decimal(  # noqa: C901
    data: Any, at: int, node: Any, slot: int, powers: Any
) -> Any:
    quoted = data[at] == QUOTE
    value, digits, power, negative, _, at = number_parts(data, at + quoted)
    if quoted and at != UNSURE and (at < 0 or data[at] != QUOTE):
        return UNSURE
    if at < 0:
        return at
    if digits > 18:
        return UNSURE
    places, factor = power + node[SCALE], np.int64(1)
    if value == 0:
        places = 0
    if places > 18 or places < -18:
        return UNSURE
    for _ in range(places if places > 0 else -places):
        factor *= 10
    low, high = np.int64(0), np.int64(0)
    if places >= 0:
        if value != 0 and digits + places > node[PRECISION]:
            return MISMATCH
        low = np.int64(np.uint64(value) * np.uint64(factor))
        high = np.int64(high_product(np.uint64(value), np.uint64(factor)))
    else:
        low = value // factor
        low += 2 * (value - low * factor) >= factor
        if node[PRECISION] < 18:
            factor = np.int64(1)
            for _ in range(node[PRECISION]):
                factor *= 10
            if low >= factor:
                return MISMATCH
    if negative:
        low = np.int64(~np.uint64(low) + np.uint64(1))
        high = ~high + (low == 0)
    values = int64s(node[DATA])
    values[2 * slot], values[2 * slot + 1] = low, high
    return at + quoted


@inlined
def _put_boolean(data: Any, at: int, node: Any, slot: int) -> Any:
    value = np.int64(is_word(data, at, TRUE))
    if value != 0:
        at += 4
    elif data[at] == 102 and is_word(data, at + 1, FALSE):
        at += 5
    else:
        return MISMATCH
    put_bit(node[DATA], slot, value)
    return at


@inlined
def _end_text(node: Any, slot: int, at: Any, size: Any) -> Any:
    """Ends a slot of text at ``size``, unless ``at`` is a refusal. Returns ``at``."""
    if at >= 0:
        node[SIZE] = size
        int32s(node[ENDS])[slot + 1] = size
    return at


@inlined
def put_string(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    """Writes a string. ``at``: behind its opening quotation mark."""
    at, size = copy_string(data, at, end, at_address(node[DATA]), node[SIZE], node[ROOM])
    return _end_text(node, slot, at, size)


@called
def _put_text(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    """Writes a value that is no string as JSON text."""
    at, size = copy_value(data, at, end, at_address(node[DATA]), node[SIZE], node[ROOM])
    return _end_text(node, slot, at, size)


@called
def _put_binary(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    if data[at] != QUOTE:
        return MISMATCH
    at, size = copy_base64(data, at + 1, end, at_address(node[DATA]), node[SIZE], node[ROOM])
    return _end_text(node, slot, at, size)


@called
def _put_date(data: Any, at: int, node: Any, slot: int) -> Any:
    if data[at] != QUOTE:
        return MISMATCH
    days, at = date(data, at + 1)
    if at < 0 or data[at] != QUOTE:
        return UNSURE
    int32s(node[DATA])[slot] = days
    return at + 1


@called
def _put_time(data: Any, at: int, node: Any, kind: int, slot: int, rules: int, zones: Any) -> Any:
    if data[at] == QUOTE:
        micros, at = timestamp(data, at + 1, kind == TIMESTAMP_NTZ, rules, zones)
    elif kind == TIMESTAMP:
        seconds, at = integer(data, at)
        micros = np.int64(np.uint64(seconds) * np.uint64(1_000_000))  # which wraps, as in Spark
    else:
        return MISMATCH
    if at >= 0:
        int64s(node[DATA])[slot] = micros
    return at


@called
def _put_raw(data: Any, at: int, node: Any, kind: int, slot: int) -> Any:
    """Writes the number that a column stores, from ``substitutes``."""
    value, at = integer(data, at)
    if kind == DECIMAL:
        values = int64s(node[DATA])
        values[2 * slot] = value
        values[2 * slot + 1], at = integer(data, at + 1)
        return at
    if kind in (DOUBLE, TIMESTAMP, TIMESTAMP_NTZ):
        int64s(node[DATA])[slot] = value
    elif kind in (FLOAT, DATE):
        int32s(node[DATA])[slot] = value
    else:
        _store(node, slot, value, _integer_width(kind))
    return at


@called
def _put_rare(
    data: Any, at: int, end: int, node: Any, kind: int, slot: int, state: Any, zones: Any
) -> Any:
    if kind == BINARY:
        return _put_binary(data, at, end, node, slot)
    if state[RAW] != 0:
        return _put_raw(data, at, node, kind, slot)
    if kind == DATE:
        return _put_date(data, at, node, slot)
    return _put_time(data, at, node, kind, slot, state[ZONE_RULES], zones)


@inlined
def put_scalar(
    data: Any,
    at: int,
    end: int,
    node: Any,
    kind: int,
    slot: int,
    state: Any,
    powers: Any,
    zones: Any,
) -> Any:
    """Writes one slot. Returns the position behind the value, or a refusal."""
    if kind == STRING:
        if data[at] == QUOTE:
            return put_string(data, at + 1, end, node, slot)
        return _put_text(data, at, end, node, slot)
    if kind == BOOLEAN:
        return _put_boolean(data, at, node, slot)
    if kind <= LONG:
        return _put_integer(data, at, node, kind, slot)
    if state[RAW] == 0:
        if kind <= DOUBLE:
            return _put_float(data, at, node, kind, slot, powers)
        if kind == DECIMAL:
            return _put_decimal(data, at, node, slot, powers)
    return _put_rare(data, at, end, node, kind, slot, state, zones)
