"""The compiled Avro decoder: one loop over records that interprets programs (``program``).

The loop is the same for all schemas. A record that does not fit gets the row that ``from_avro``
gives it: a struct of nulls. Every position is checked before the loop reads there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.avro import instructions as ops
from kfetch.formats.avro.instructions import WIDTH
from kfetch.formats.avro.value_loops import (
    bits32,
    bits64,
    block,
    close_list,
    complete,
    convert,
    has_room,
    int_at,
    long_at,
    null_others,
    null_row,
    put_bytes,
    put_decimal,
    put_millis,
    put_symbol,
    text_size,
)
from kfetch.formats.columns.intrinsics import at_address, called, int32s, int64s
from kfetch.formats.columns.node_table import (
    AT,
    CORRUPT,
    COUNT,
    DATA,
    DONE,
    FULL,
    NODE_COUNT,
    NODE_WIDTH,
    REASON,
    RECORD,
    REFUSED,
    SLACK,
    STUCK_NODE,
)
from kfetch.formats.columns.slot_loops import null_slots, rewind


@called
def _read_record(  # noqa: C901, PLR0915
    whole: Any,
    at: int,
    end: int,
    size: int,
    row: int,
    program: Any,
    nodes: Any,
    flat_nodes: Any,
    state: Any,
    counts: Any,
) -> Any:
    """Writes one row. Returns 0 or a reason, and the position and the instruction of it."""
    data: Any = whole
    outer_at: Any = np.int64(0)
    outer_end: Any = np.int64(0)
    outer_size: Any = np.int64(0)
    depth, empty = np.int64(-1), np.int64(0)
    value: Any
    length: Any
    while True:
        step = row_of(program, row, WIDTH)
        op = step[ops.OP]
        node = row_of(nodes, step[ops.NODE], NODE_WIDTH)
        slot = node[COUNT]
        before, row = at, row + 1

        # Numbers.
        if op == ops.INT64:
            value, at = long_at(data, at, end)
            if at >= 0:
                int64s(node[DATA])[slot] = value
                complete(node)
        elif op == ops.TEXT or op == ops.KEY:
            length, at = text_size(data, at, end)
            if at >= 0:
                failed = put_bytes(data, at, length, size, node, slot)
                if failed < 0:
                    state[STUCK_NODE] = step[ops.NODE]
                    return failed, before, row - 1
                at += length
                if op == ops.TEXT:
                    complete(node)
                else:
                    node[COUNT] = slot + 1
        elif op == ops.DOUBLE8:
            if end - at < 8:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            int64s(node[DATA])[slot] = bits64(data, at)
            at += 8
            complete(node)
        elif op == ops.INT32:
            value, at = int_at(data, at, end)
            if at >= 0:
                int32s(node[DATA])[slot] = np.int32(value)
                complete(node)
        elif op == ops.UNION:
            index, at = int_at(data, at, end)
            if at >= 0:
                if index < 0 or index >= step[ops.A]:
                    return np.int64(ops.BAD_BRANCH), before, row - 1
                row = row_of(program, row + index, WIDTH)[ops.A]
        elif op == ops.JUMP:
            row = step[ops.A]
        elif op == ops.BOOL:
            if at >= end:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            bits, bit = at_address(node[DATA]), slot & 7
            value = np.int64(data[at] == 1)
            bits[slot >> 3] = (bits[slot >> 3] & ((1 << bit) - 1)) | (value << bit)
            at += 1
            complete(node)
        elif op == ops.NULL:
            null_slots(nodes, flat_nodes, step[ops.NODE])
        elif op == ops.STRUCT:
            complete(node)
        elif op == ops.END:
            return np.int64(0), at, row
        elif op == ops.WIDEN:
            value, at = int_at(data, at, end)
            if at >= 0:
                int64s(node[DATA])[slot] = value
                complete(node)
        elif op == ops.MILLIS:
            at = put_millis(data, at, end, step[ops.A], node, slot)
            if at >= 0:
                complete(node)
        elif op == ops.FLOAT4:
            if end - at < 4:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            int32s(node[DATA])[slot] = bits32(data, at)
            at += 4
            complete(node)
        elif op == ops.CONVERT:
            at = convert(data, at, end, step[ops.A], step[ops.B], node, slot)
            if at >= 0:
                complete(node)

        # Bytes.
        elif op == ops.ENUM:
            at = put_symbol(data, at, end, step[ops.A], step[ops.B], node)
            if at >= 0:
                complete(node)
            else:
                state[STUCK_NODE] = step[ops.NODE]
        elif op == ops.FIXED:
            if step[ops.A] > end - at:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            failed = put_bytes(data, at, step[ops.A], size, node, slot)
            if failed < 0:
                state[STUCK_NODE] = step[ops.NODE]
                return failed, before, row - 1
            at += step[ops.A]
            complete(node)
        elif op == ops.DECIMAL:
            length = step[ops.A]
            if length < 0:
                length, at = text_size(data, at, end)
            elif length > end - at:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            if at >= 0:
                failed = put_decimal(data, at, length, step[ops.B], step[ops.C], node, slot)
                if failed < 0:
                    return failed, before, row - 1
                at += length
                complete(node)

        # Lists.
        elif op == ops.LIST or op == ops.SKIP_LIST:
            depth += 1
            counts[depth] = 0
            row = step[ops.B] - 1  # the row of NEXT, which reads the first block
        elif op == ops.NEXT or op == ops.SKIP_NEXT:
            if counts[depth] > 0:
                counts[depth] -= 1
            left = counts[depth]
            if left == 0:
                left, at = block(data, at, end, step[ops.C], op == ops.SKIP_NEXT)
                if at < 0:
                    return at, before, row - 1
                if step[ops.C] == 0:
                    empty += min(left, ops.EMPTY_MAX + 1)
                    if empty > ops.EMPTY_MAX:
                        return np.int64(ops.TOO_MANY), before, row - 1
                counts[depth] = left
            if left > 0:
                if op == ops.NEXT:
                    failed = has_room(nodes, step[ops.A], state)
                    if failed < 0:
                        return failed, before, row - 1
                row = step[ops.B]
            else:
                depth -= 1
                if op == ops.NEXT:
                    close_list(nodes, node, step[ops.A])

        # Defaults, and what the reader does not have.
        elif op == ops.NULL_OTHERS:
            null_others(nodes, flat_nodes, node, step[ops.A])
        elif op == ops.DEFAULT:
            outer_at, outer_end, outer_size = at, end, size
            data, end = at_address(step[ops.A]), step[ops.B]
            at = before - before
            size = end + SLACK
        elif op == ops.RESTORE:
            data, at, end, size = whole, outer_at, outer_end, outer_size
        elif op == ops.SKIP_INT:
            value, at = int_at(data, at, end)
        elif op == ops.SKIP_LONG:
            value, at = long_at(data, at, end)
        elif op == ops.SKIP_TEXT:
            length, at = text_size(data, at, end)
            if at >= 0:
                at += length
        elif op == ops.SKIP_BYTES:
            if step[ops.A] > end - at:
                return np.int64(ops.ENDS_EARLY), before, row - 1
            at += step[ops.A]
        else:
            return np.int64(ops.UNRESOLVED), before, row - 1
        if at < 0:
            return at, before, row - 1


def decode_records(
    data: Any,
    size: int,
    positions: Any,
    lengths: Any,
    count: int,
    state: Any,
    nodes: Any,
    flat_nodes: Any,
    corrupt_records: Any,
    starts: Any,
    program: Any,
    counts: Any,
) -> int:
    """Writes a slot for each record from state[RECORD] on. Returns DONE or FULL.

    A length below 0 is a null. ``size``: the bytes of ``data``. ``starts``: the row of the program
    where each record starts.
    """
    root = row_of(nodes, 0, NODE_WIDTH)
    for record in range(state[RECORD], count):
        length, slot = np.int64(lengths[record]), root[COUNT]
        if length < 0:
            null_slots(nodes, flat_nodes, 0)
            continue
        at, start = positions[record], np.int64(starts[record])
        if record == state[REFUSED]:
            length = np.int64(0)  # it ends early then, because it has text or lists
        failed, after, row = _read_record(
            data, at, at + length, size, start, program, nodes, flat_nodes, state, counts
        )
        if failed < 0:
            rewind(nodes, state[NODE_COUNT], slot)
            if failed == ops.NO_ROOM:
                state[RECORD] = record
                return FULL
            null_row(nodes, flat_nodes)
            corrupt_records[state[CORRUPT]] = record
            state[CORRUPT] += 1
            state[REASON], state[AT], state[ops.ROW] = failed, after - at, row
    state[RECORD] = count
    return DONE
