"""Writes the rows of Protobuf messages for the compiled loops.

Reading a message keeps its single fields in the table of fields, because a later field replaces an
earlier one. ``emit`` writes them at the message's end. Elements of lists are appended at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns import node_table
from kfetch.formats.columns.intrinsics import called, inlined, int32s, int64s
from kfetch.formats.columns.node_table import (
    CAPACITY,
    COUNT,
    DATA,
    ENDS,
    KIND,
    NODE_WIDTH,
    STUCK_NODE,
)
from kfetch.formats.columns.slot_loops import end_list, end_slot, put_bit, rewind_node
from kfetch.formats.protobuf.field_table import (
    BAD,
    COLUMN,
    DEFAULT,
    DEFAULT_SIZE,
    DEFAULTED,
    EFFECTIVE,
    ENUM,
    ENUM_TYPE,
    FIELD_WIDTH,
    FIRST,
    FLAT,
    FLAT_COUNT,
    LIST,
    MISSING,
    NANOS,
    NO_ROOM,
    ONEOF,
    OUT_OF_RANGE,
    PARENT,
    PRESENT,
    PROBE,
    REPEATED,
    REQUIRED,
    SCALAR,
    SECONDS,
    SHAPE,
    SIZE,
    STRICT,
    STRING_TYPE,
    STRUCT_SHAPE,
    SUBTREE,
    SUBTREE_COUNT,
    TYPE,
    VALUE,
)
from kfetch.formats.protobuf.field_table import (
    COUNT as FIELD_COUNT,
)
from kfetch.formats.protobuf.text_loops import put_enum, put_java_text, put_text

_THOUSAND = np.uint64(1000)
_MILLIS_MAX = 9_223_372_036_854_775  # as microseconds, this fits into 64 bits


@inlined
def _field(fields: Any, number: int) -> Any:
    return row_of(fields, number, FIELD_WIDTH)


@inlined
def _node(nodes: Any, number: int) -> Any:
    return row_of(nodes, number, NODE_WIDTH)


@inlined
def _put_bits(node: Any, slot: int, kind: int, value: int) -> None:
    """Writes a value of a fixed width."""
    if kind == node_table.BOOLEAN:
        put_bit(node[DATA], slot, value)
    elif kind == node_table.INT or kind == node_table.FLOAT:
        int32s(node[DATA])[slot] = value
    else:
        int64s(node[DATA])[slot] = value


@inlined
def _put(field: Any, enums: Any, node: Any, value: int, size: int) -> Any:
    """Writes a value into the next slot of a node. Returns 0 or NO_ROOM."""
    slot, kind = node[COUNT], node[KIND]
    result = np.int64(0)
    if kind != node_table.STRING and kind != node_table.BINARY:
        _put_bits(node, slot, kind, value)
    elif field[TYPE] == ENUM_TYPE:
        result = put_enum(enums, field[ENUM], value, node, slot)
    elif field[TYPE] == STRING_TYPE and field[STRICT] == 0:
        result = put_java_text(node, slot, value, size)
    else:
        result = put_text(node, slot, value, size)
    if result == 0:
        end_slot(node, 1)
    return result


@inlined
def _put_null(node: Any) -> None:
    slot, kind = node[COUNT], node[KIND]
    if kind == node_table.STRING or kind == node_table.BINARY:
        int32s(node[ENDS])[slot + 1] = node[node_table.SIZE]
    else:
        _put_bits(node, slot, kind, 0)
    end_slot(node, 0)


@inlined
def append(field: Any, enums: Any, nodes: Any, value: int, size: int, state: Any) -> Any:
    """Writes an element of a list of scalars. Returns 0 or NO_ROOM."""
    number = field[COLUMN]
    if number < 0:
        return np.int64(0)
    node = _node(nodes, number)
    if node[COUNT] >= node[CAPACITY]:
        state[STUCK_NODE] = ~number
        return np.int64(NO_ROOM)
    result = _put(field, enums, node, value, size)
    if result < 0:
        state[STUCK_NODE] = number
    return result


# Taking back.


@called
def _rewind_list(nodes: Any, subtrees: Any, field: Any) -> None:
    """Takes back the elements that a list got since its last row."""
    first, count = field[SUBTREE], field[SUBTREE_COUNT]
    for i in range(first, first + count):  # the list first, and each node before its children
        rewind_node(nodes, subtrees[i])


@called
def _clear(fields: Any, flat: Any, nodes: Any, subtrees: Any, number: int) -> None:
    """Makes a single field absent, and everything inside it."""
    field = _field(fields, number)
    field[PRESENT] = 0
    for i in range(field[FLAT], field[FLAT] + field[FLAT_COUNT]):
        inner = _field(fields, flat[i])
        inner[PRESENT] = 0
        inner[BAD] = 0
        if inner[REPEATED] != 0 and inner[LIST] >= 0:
            _rewind_list(nodes, subtrees, inner)


@called
def clear_oneof(fields: Any, flat: Any, nodes: Any, subtrees: Any, number: int) -> None:
    """Makes the other fields of a field's oneof absent."""
    field = _field(fields, number)
    parent = _field(fields, field[PARENT])
    for other in range(parent[FIRST], parent[FIRST] + parent[FIELD_COUNT]):
        sibling = _field(fields, other)
        if other != number and sibling[ONEOF] == field[ONEOF] and sibling[PRESENT] != 0:
            _clear(fields, flat, nodes, subtrees, other)


@called
def forget(fields: Any, count: int) -> None:
    """Makes all fields absent, behind a record that ended early."""
    for number in range(count):
        field = _field(fields, number)
        field[PRESENT] = 0
        field[BAD] = 0


# Rows.


@inlined
def _number(field: Any) -> Any:
    return field[VALUE] if field[PRESENT] != 0 else field[DEFAULT]


@called
def _put_time(fields: Any, field: Any, node: Any) -> Any:
    """Writes a Timestamp or a Duration in microseconds. Returns 0 or OUT_OF_RANGE.

    The product of Spark wraps around at milliseconds. It fails at microseconds.
    """
    # Unsigned numbers wrap around. LLVM assumes that signed ones never do.
    millis = np.int64(np.uint64(_number(_field(fields, field[SECONDS]))) * _THOUSAND)
    nanos = _number(_field(fields, field[NANOS]))
    if millis > _MILLIS_MAX or millis < -_MILLIS_MAX:
        return np.int64(OUT_OF_RANGE)
    micros = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)
    total = np.uint64(millis) * _THOUSAND + np.uint64(micros)
    int64s(node[DATA])[node[COUNT]] = np.int64(total)
    end_slot(node, 1)
    return np.int64(0)


@inlined
def _put_message(fields: Any, nodes: Any, field: Any, there: int) -> Any:
    """Writes the slot of a message itself. Returns 0 or a reason."""
    number, shape = field[COLUMN], field[SHAPE]
    if number < 0:
        return np.int64(0)
    node = _node(nodes, number)
    if shape == STRUCT_SHAPE:
        end_slot(node, there)
        return np.int64(0)
    if there != 0:
        return _put_time(fields, field, node)
    _put_null(node)
    return np.int64(0)


@inlined
def _put_scalar(nodes: Any, enums: Any, field: Any, there: int, state: Any) -> Any:
    """Writes a scalar, its default or null. Returns 0 or NO_ROOM."""
    number = field[COLUMN]
    if number < 0:
        return np.int64(0)
    node = _node(nodes, number)
    result = np.int64(0)
    if there != 0 and field[PRESENT] != 0:
        result = _put(field, enums, node, field[VALUE], field[SIZE])
    elif there != 0 and field[DEFAULTED] != 0:
        result = _put(field, enums, node, field[DEFAULT], field[DEFAULT_SIZE])
    else:
        _put_null(node)
    if result < 0:
        state[STUCK_NODE] = number
    return result


@called
def emit(fields: Any, flat: Any, nodes: Any, enums: Any, state: Any, top: int) -> Any:
    """Writes the row of a message: the record itself, or an element of a list.

    Returns 0, NO_ROOM, or the reason why the record can't be decoded. All its fields are absent
    then.
    """
    message = _field(fields, top)
    if message[PROBE] >= 0:
        probe = _node(nodes, message[PROBE])
        if probe[COUNT] >= probe[CAPACITY]:
            state[STUCK_NODE] = ~message[PROBE]
            return np.int64(NO_ROOM)
    message[EFFECTIVE] = 1
    problem = _put_message(fields, nodes, message, 1)
    for i in range(message[FLAT], message[FLAT] + message[FLAT_COUNT]):
        field = _field(fields, flat[i])
        there = inside = _field(fields, field[PARENT])[EFFECTIVE]
        result = np.int64(0)
        if field[REPEATED] != 0:
            if field[LIST] >= 0:
                end_list(nodes, _node(nodes, field[LIST]), there)
            result = field[BAD]
            field[BAD] = 0
        elif field[SHAPE] == SCALAR:
            result = _put_scalar(nodes, enums, field, there, state)
        else:
            there &= field[PRESENT] | field[DEFAULTED]
            field[EFFECTIVE] = there
            result = _put_message(fields, nodes, field, there)
        if result == NO_ROOM:
            return result
        if field[REQUIRED] != 0 and inside != 0 and field[PRESENT] == 0:
            result = np.int64(MISSING)
        if result != 0:
            problem = result
        field[PRESENT] = 0
    return problem
