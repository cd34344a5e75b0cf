"""Steps of the compiled Avro decoder: blocks of lists, rows of nulls, symbols, other number types.

Functions that read return the position behind the value, or a reason below 0 (``layout``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.avro.layout import (
    BAD_SYMBOL,
    BAD_TIME,
    ENDS_EARLY,
    FLOAT_FROM,
    INT_FROM,
    LOST_SYMBOL,
    NEGATIVE,
    NO_OFFSETS,
    NO_ROOM,
    STUCK_NODE,
    TEXT_MAX,
)
from kfetch.formats.avro.scalars import int_at, long_at, put_bytes
from kfetch.formats.columns.intrinsics import (
    at_address,
    float_from_bits,
    float_to_bits,
    int32s,
    int64s,
    single_from_bits,
    single_to_bits,
)
from kfetch.formats.columns.layout import (
    CAPACITY,
    CHILDREN,
    COUNT,
    DATA,
    DOUBLE,
    ENDS,
    FIRST_CHILD,
    KIND,
    NODE_WIDTH,
    STRUCT,
)
from kfetch.formats.columns.number_loops import called, inlined
from kfetch.formats.columns.slot_loops import null_slots, set_valid

_MILLIS_MAX = 9223372036854775  # of them as microseconds in 64 bits


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
    """Makes the slot of a node valid, and goes to the next one."""
    slot = node[COUNT]
    set_valid(node, slot, 1)
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
    if node[COUNT] >= TEXT_MAX:
        return np.int64(NO_OFFSETS)
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
