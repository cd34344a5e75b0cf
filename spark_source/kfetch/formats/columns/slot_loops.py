"""Slots of columns for the compiled loops: nulls, validity, lists, and taking back a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns.intrinsics import at_address, called, inlined, int32s
from kfetch.formats.columns.node_table import (
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
    NODE_WIDTH,
    SHORT,
    SIZE,
    STRING,
    STRUCT,
    VALID,
)


@inlined
def put_bit(address: int, slot: int, value: int) -> None:
    """Writes the bit of a slot. The bits above it in its byte are still free."""
    bits, at, bit = at_address(address), slot >> 3, slot & 7
    bits[at] = (bits[at] & ((1 << bit) - 1)) | (value << bit)


@inlined
def end_slot(node: Any, valid: int) -> None:
    """Writes whether the slot of a node is not null, and goes to the next one."""
    slot = node[COUNT]
    if node[VALID] != 0:
        put_bit(node[VALID], slot, valid)
    node[COUNT] = slot + 1


@inlined
def end_list(nodes: Any, node: Any, valid: int) -> None:
    """Ends the slot of a list behind the elements that are written."""
    child = row_of(nodes, node[FIRST_CHILD], NODE_WIDTH)
    int32s(node[ENDS])[node[COUNT] + 1] = child[COUNT]
    end_slot(node, valid)


@inlined
def _width(kind: int) -> Any:
    """Returns the bytes of a value of a fixed width."""
    if kind == BYTE:
        return 1
    if kind == SHORT:
        return 2
    if kind in (INT, FLOAT, DATE):
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
        if STRING <= kind <= BINARY:
            int32s(inner[ENDS])[slot + 1] = inner[SIZE]
        elif kind >= ARRAY:
            child = row_of(nodes, inner[FIRST_CHILD], NODE_WIDTH)
            int32s(inner[ENDS])[slot + 1] = child[COUNT]
        elif kind == BOOLEAN:
            put_bit(inner[DATA], slot, 0)
        elif kind != STRUCT:
            width = _width(kind)
            values = at_address(inner[DATA])
            for j in range(slot * width, (slot + 1) * width):
                values[j] = 0
        end_slot(inner, 0)


@inlined
def rewind_node(nodes: Any, number: int) -> None:
    """Takes back what lies behind the slots of a node: its text, and slots of its children."""
    node = row_of(nodes, number, NODE_WIDTH)
    kind, inner = node[KIND], node[COUNT]
    if STRING <= kind <= BINARY:
        node[SIZE] = np.int64(int32s(node[ENDS])[inner])
    elif kind >= ARRAY:
        inner = np.int64(int32s(node[ENDS])[inner])
    for i in range(node[FIRST_CHILD], node[FIRST_CHILD] + node[CHILDREN]):
        row_of(nodes, i, NODE_WIDTH)[COUNT] = inner


@called
def rewind(nodes: Any, node_count: int, row: int) -> None:
    """Takes back everything that was written for document ``row`` and the ones behind it."""
    row_of(nodes, 0, NODE_WIDTH)[COUNT] = row
    for number in range(node_count):
        rewind_node(nodes, number)


@called
def row_with(table: Any, first: Any, count: Any, width: Any, number: Any) -> Any:
    """Returns which of ``count`` rows, in order, begins with a number; -1 for none."""
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        found = row_of(table, middle, width)[0]
        if found == number:
            return middle
        if found < number:
            low = middle + 1
        else:
            high = middle
    return np.int64(-1)
