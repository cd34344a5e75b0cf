"""Values of Avro for the compiled loops: numbers, text, decimals, symbols, and lists.

Each function checks the end of the record before it reads, and the buffer's room before it writes.
It returns the position behind the value, or a reason below 0 (``instructions``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import copy, row_of
from kfetch.formats.avro.instructions import (
    BAD_DECIMAL,
    BAD_NUMBER,
    BAD_SYMBOL,
    BAD_TIME,
    ENDS_EARLY,
    FLOAT_FROM,
    INT_FROM,
    LOST_SYMBOL,
    NEGATIVE,
    NO_ROOM,
)
from kfetch.formats.columns.intrinsics import (
    at_address,
    called,
    copy16,
    float_from_bits,
    float_to_bits,
    inlined,
    int32s,
    int64s,
    single_from_bits,
    single_to_bits,
)
from kfetch.formats.columns.node_table import (
    CAPACITY,
    CHILDREN,
    COUNT,
    DATA,
    DOUBLE,
    ENDS,
    FIRST_CHILD,
    KIND,
    NODE_WIDTH,
    ROOM,
    SIZE,
    SLACK,
    STRUCT,
    STUCK_NODE,
    VALID,
)
from kfetch.formats.columns.slot_loops import null_slots, put_bit

_SHORT = 64  # bytes of text that are copied without a call
_MILLIS_MAX = 9223372036854775  # of them as microseconds in 64 bits


@inlined
def _number(data: Any, at: int, end: int, shift_max: int) -> Any:
    """Returns the bits of a number of variable length, and the position behind it."""
    value, shift = np.uint64(0), np.uint64(0)
    while True:
        if at >= end:
            return np.uint64(0), np.int64(ENDS_EARLY)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, np.int64(at)
        shift += np.uint64(7)
        if shift > np.uint64(shift_max):
            return np.uint64(0), np.int64(BAD_NUMBER)


@called
def _long_number(data: Any, at: int, end: int) -> Any:
    return _number(data, at, end, 63)


@called
def _int_number(data: Any, at: int, end: int) -> Any:
    value, at = _number(data, at, end, 28)
    return value & np.uint64(0xFFFFFFFF), at


@inlined
def _signed(value: Any) -> Any:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@inlined
def long_at(data: Any, at: int, end: int) -> Any:
    """Returns a long and the position behind it."""
    if at < end and data[at] < 128:
        return _signed(np.uint64(data[at])), np.int64(at + 1)
    value, after = _long_number(data, at, end)
    return _signed(value), after


@inlined
def int_at(data: Any, at: int, end: int) -> Any:
    """Returns an int and the position behind it."""
    if at < end and data[at] < 128:
        return _signed(np.uint64(data[at])), np.int64(at + 1)
    value, after = _int_number(data, at, end)
    return _signed(value), after


@inlined
def text_size(data: Any, at: int, end: int) -> Any:
    """Returns the bytes of a text, all of which lie before the end, and its position."""
    size, after = long_at(data, at, end)
    if after >= 0:
        if size < 0:
            return np.int64(0), np.int64(NEGATIVE)
        if size > end - after:
            return np.int64(0), np.int64(ENDS_EARLY)
    return size, after


@inlined
def put_bytes(data: Any, at: int, length: int, data_end: int, node: Any, slot: int) -> Any:
    """Writes bytes into a column of text. Returns 0 or NO_ROOM.

    ``data_end``: so far the memory may be read.
    """
    size = node[SIZE]
    if size + length + SLACK > node[ROOM]:
        return np.int64(NO_ROOM)
    to = at_address(node[DATA])
    if length <= _SHORT and at + length + 16 <= data_end:
        done = np.int64(0)
        while done < length:
            copy16(to, size + done, data, at + done)
            done += 16
    else:
        copy(to, size, data, at, length)
    node[SIZE] = size + length
    int32s(node[ENDS])[slot + 1] = size + length
    return np.int64(0)


@called
def put_decimal(data: Any, at: int, size: int, upper: int, lower: int, node: Any, slot: int) -> Any:
    """Writes a decimal of ``size`` bytes, the highest first. Returns 0 or BAD_DECIMAL.

    ``upper``, ``lower``: the halves of the power of ten that it stays below. Powers of up to 18
    digits look at the lowest 64 bits alone, as Spark does.
    """
    if size == 0:
        return np.int64(BAD_DECIMAL)
    sign = data[at] >= 128
    filler = np.uint64(0xFFFFFFFFFFFFFFFF) if sign else np.uint64(0)
    low, high = filler, filler
    for i in range(size):
        byte = np.uint64(data[at + i])
        out = high >> np.uint64(56)
        if out != filler >> np.uint64(56) and (upper != 0 or lower >= 10**18 + 1 or lower < 0):
            return np.int64(BAD_DECIMAL)
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | byte
    if upper == 0 and 0 < lower <= 10**18:
        value = np.int64(low)
        if value <= -lower or value >= lower:
            return np.int64(BAD_DECIMAL)
        high = np.uint64(0xFFFFFFFFFFFFFFFF) if value < 0 else np.uint64(0)
    else:
        if (np.int64(high) < 0) != sign:
            return np.int64(BAD_DECIMAL)
        above, below = high, low
        if sign:
            below = ~low + np.uint64(1)
            above = ~high + (np.uint64(1) if below == np.uint64(0) else np.uint64(0))
        limit = np.uint64(upper)
        if above > limit or (above == limit and below >= np.uint64(lower)):
            return np.int64(BAD_DECIMAL)
    words = int64s(node[DATA])
    words[2 * slot] = np.int64(low)
    words[2 * slot + 1] = np.int64(high)
    return np.int64(0)


@inlined
def bits32(data: Any, at: int) -> Any:
    """Returns four bytes as a number."""
    bits = np.uint32(data[at])
    for i in range(1, 4):
        bits |= np.uint32(data[at + i]) << np.uint32(8 * i)
    return np.int32(bits)


@inlined
def bits64(data: Any, at: int) -> Any:
    """Returns eight bytes as a number."""
    bits = np.uint64(data[at])
    for i in range(1, 8):
        bits |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(bits)


@inlined
def complete(node: Any) -> None:
    """Makes the slot of a node valid, and goes to the next one. No key of a map: it has no bits."""
    slot = node[COUNT]
    put_bit(node[VALID], slot, 1)
    node[COUNT] = slot + 1


@called
def close_list(nodes: Any, node: Any, first_child: int) -> None:
    """Completes the slot of a list, whose elements are written."""
    child = row_of(nodes, first_child, NODE_WIDTH)
    int32s(node[ENDS])[node[COUNT] + 1] = child[COUNT]
    complete(node)


@called
def null_others(nodes: Any, flat_nodes: Any, node: Any, member: int) -> None:
    """Writes null into the children of a node, apart from child ``member``."""
    for i in range(node[CHILDREN]):
        if i != member:
            null_slots(nodes, flat_nodes, node[FIRST_CHILD] + i)


@called
def null_row(nodes: Any, flat_nodes: Any) -> None:
    """Writes the row of a corrupt record."""
    root = row_of(nodes, 0, NODE_WIDTH)
    if root[KIND] != STRUCT:
        null_slots(nodes, flat_nodes, 0)
        return
    null_others(nodes, flat_nodes, root, -1)
    complete(root)


@called
def block(data: Any, at: int, end: int, least: int, skips: int) -> Any:
    """Reads the head of a list's block. Returns its elements and the position behind it.

    A negative count is followed by the block's bytes. A list that is skipped jumps over them.
    """
    while True:
        count, at = long_at(data, at, end)
        if at < 0 or count == 0:
            return count, at
        if count < 0:
            size, at = long_at(data, at, end)
            if at < 0:
                return count, at
            count = -count
            if skips:
                if size < 0:
                    return count, np.int64(NEGATIVE)
                if size > end - at:
                    return count, np.int64(ENDS_EARLY)
                at += size
                continue
            if count < 0:
                return count, np.int64(NEGATIVE)
        if least > 0 and count > end - at:
            return count, np.int64(ENDS_EARLY)
        return count, at


@inlined
def has_room(nodes: Any, child: int, state: Any) -> Any:
    """Returns 0 if a list's element has a slot, or a reason."""
    node = row_of(nodes, child, NODE_WIDTH)
    if node[COUNT] < node[CAPACITY]:
        return np.int64(0)
    state[STUCK_NODE] = ~child
    return np.int64(NO_ROOM)


@called
def convert(data: Any, at: int, end: int, source: int, by_float: int, node: Any, slot: int) -> Any:
    """Writes a number of another type as float or double."""
    if source == FLOAT_FROM:
        if end - at < 4:
            return np.int64(ENDS_EARLY)
        wide = float_to_bits(np.float64(single_from_bits(bits32(data, at))))
        at += 4
    else:
        if source == INT_FROM:
            value, at = int_at(data, at, end)
        else:
            value, at = long_at(data, at, end)
        if at < 0:
            return at
        if node[KIND] != DOUBLE or by_float != 0:
            wide = float_to_bits(np.float64(np.float32(value)))
        else:
            wide = float_to_bits(np.float64(value))
    if node[KIND] == DOUBLE:
        int64s(node[DATA])[slot] = wide
    else:
        int32s(node[DATA])[slot] = single_to_bits(np.float32(float_from_bits(wide)))
    return at


@inlined
def put_symbol(data: Any, at: int, end: int, count: int, pairs: int, node: Any) -> Any:
    """Writes the text of a symbol."""
    index, after = int_at(data, at, end)
    if after < 0:
        return after
    if index < 0 or index >= count:
        return np.int64(BAD_SYMBOL)
    pair = row_of(int64s(pairs), index, 2)
    if pair[1] < 0:
        return np.int64(LOST_SYMBOL)
    size = pair[1]  # its bytes have SLACK behind them
    failed = put_bytes(at_address(pair[0]), 0, size, size + 16, node, node[COUNT])
    return failed if failed < 0 else after


@called
def put_millis(data: Any, at: int, end: int, is_int: int, node: Any, slot: int) -> Any:
    """Writes milliseconds as microseconds."""
    if is_int:
        value, at = int_at(data, at, end)
    else:
        value, at = long_at(data, at, end)
    if at >= 0:
        if value > _MILLIS_MAX or value < -_MILLIS_MAX:
            return np.int64(BAD_TIME)
        int64s(node[DATA])[slot] = value * 1000
    return at
