"""Slots of columns for the compiled loops: nulls, validity, and taking back a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns.intrinsics import at_address, int32s
from kfetch.formats.columns.layout import (
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
from kfetch.formats.columns.number_loops import called, inlined


@inlined
def set_valid(node: Any, slot: int, valid: int) -> None:
    """Writes the bit of a slot. The bits above it in its byte are still free."""
    bits, at, bit = at_address(node[VALID]), slot >> 3, slot & 7
    bits[at] = (bits[at] & ((1 << bit) - 1)) | (valid << bit)


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
        set_valid(inner, slot, 0)
        inner[COUNT] = slot + 1
        if STRING <= kind <= BINARY:
            int32s(inner[ENDS])[slot + 1] = inner[SIZE]
        elif kind >= ARRAY:
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
        if STRING <= kind <= BINARY:
            node[SIZE] = np.int64(int32s(node[ENDS])[slot])
        inner = slot
        if kind >= ARRAY:
            inner = np.int64(int32s(node[ENDS])[slot])
        for i in range(node[FIRST_CHILD], node[FIRST_CHILD] + node[CHILDREN]):
            row_of(nodes, i, NODE_WIDTH)[COUNT] = inner
