"""The buffers of a struct column that the compiled loops fill, and the table that describes them.

Each type of the schema is a node with buffers of its own. They grow when the loops report that one
is full. At the end they become Arrow arrays without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.values import layout
from kfetch.values.types import Kind, ValueType, arrow_type

__all__ = ["Plan", "StructColumn"]

Array = np.ndarray[Any, Any]

_WIDTHS = {
    Kind.BYTE: 1,
    Kind.SHORT: 2,
    Kind.INT: 4,
    Kind.LONG: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
    Kind.DECIMAL: 16,
    Kind.DATE: 4,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMP_NTZ: 8,
}
_TEXTS = (Kind.STRING, Kind.BINARY)
_LISTS = (Kind.ARRAY, Kind.MAP)
_LIST_ROWS_MIN = 64
_GROWTH = 2


class Plan:
    """The nodes of a schema, which all columns of the schema share."""

    def __init__(self, schema: ValueType) -> None:
        self.schema = schema
        self.types: list[ValueType] = [schema]
        """The nodes' types: the struct first, and the children of a node in a row."""
        self.parents: list[int] = [-1]
        self._names: list[bytes] = [b""]
        self._first_children: list[int] = []
        for kind in self.types:  # which grows meanwhile
            self._first_children.append(len(self.types))
            self.types += kind.children
            self.parents += [len(self._first_children) - 1] * len(kind.children)
            self._names += _encoded_names(kind)
        self.flat_nodes = np.array([], np.int64)
        self.table = self._table()

    def children(self, number: int) -> range:
        """Returns the numbers of a node's children."""
        first = self._first_children[number]
        return range(first, first + len(self.types[number].children))

    def flat(self, number: int) -> Iterator[int]:
        """Yields a node and all fields of structs inside it: they have the same slots."""
        yield number
        if self.types[number].kind is Kind.STRUCT:
            for child in self.children(number):
                yield from self.flat(child)

    def _table(self) -> Array:
        table = np.zeros((len(self.types), layout.NODE_WIDTH), np.int64)
        self._text = pa.py_buffer(b"".join(name + bytes(layout.SLACK) for name in self._names))
        at, flat = self._text.address, []
        for number, (kind, name) in enumerate(zip(self.types, self._names, strict=True)):
            inside = list(self.flat(number))
            row = table[number]
            row[layout.KIND] = kind.kind
            row[layout.FIRST_CHILD] = self._first_children[number]
            row[layout.CHILDREN] = len(kind.children)
            row[layout.PRECISION], row[layout.SCALE] = kind.precision, kind.scale
            row[layout.NAME], row[layout.NAME_SIZE] = at, len(name)
            row[layout.FLAT], row[layout.FLAT_COUNT] = len(flat), len(inside)
            at += len(name) + layout.SLACK
            flat += inside
        self.flat_nodes = np.array(flat, np.int64)
        return table


def _encoded_names(kind: ValueType) -> list[bytes]:
    if kind.kind is Kind.STRUCT:
        return [name.encode() for name in kind.names]
    return [b""] * len(kind.children)


class StructColumn:
    """One struct column that is being filled: its nodes and their buffers."""

    def __init__(self, plan: Plan, rows: int, data_bytes: int) -> None:
        self._plan = plan
        self.table = plan.table.copy()
        self._buffers: list[dict[int, Any]] = [{} for _ in plan.types]
        texts = sum(kind.kind in _TEXTS for kind in plan.types)
        room = data_bytes // max(texts, 1) + 2 * layout.SLACK
        for number in range(len(plan.types)):
            row_count = rows if self._is_flat(number) else max(_LIST_ROWS_MIN, rows)
            self._resize(number, row_count)
            if plan.types[number].kind in _TEXTS:
                self._resize_buffer(number, layout.DATA, room)
                self.table[number, layout.ROOM] = room
            if plan.types[number].kind in (*_TEXTS, *_LISTS):
                np.frombuffer(self._buffers[number][layout.ENDS], np.int32, 1)[0] = 0

    def _is_flat(self, number: int) -> bool:
        while number > 0:
            number = self._plan.parents[number]
            if self._plan.types[number].kind in _LISTS:
                return False
        return True

    def grow(self, stuck: int) -> None:
        """Makes room: for text in node ``stuck``, or for slots in the list's child ``~stuck``."""
        if stuck >= 0:
            room = int(self.table[stuck, layout.ROOM]) * _GROWTH
            self._resize_buffer(stuck, layout.DATA, room)
            self.table[stuck, layout.ROOM] = room
            return
        for sibling in self._plan.children(self._plan.parents[~stuck]):
            for inner in self._plan.flat(sibling):
                self._resize(inner, int(self.table[inner, layout.CAPACITY]) * _GROWTH)

    def _resize(self, number: int, rows: int) -> None:
        """Gives a node the buffers for so many slots."""
        kind, row = self._plan.types[number].kind, self.table[number]
        row[layout.CAPACITY] = rows
        self._resize_buffer(number, layout.VALID, rows // 8 + 1)
        if kind in _TEXTS or kind in _LISTS:
            self._resize_buffer(number, layout.ENDS, 4 * rows + 4)
        elif kind is Kind.BOOLEAN:
            self._resize_buffer(number, layout.DATA, rows // 8 + 1)
        elif kind is not Kind.STRUCT:
            self._resize_buffer(number, layout.DATA, _WIDTHS[kind] * rows)

    def _resize_buffer(self, number: int, column: int, size: int) -> None:
        old: Any = self._buffers[number].get(column)
        new: Any = pa.allocate_buffer(max(size, layout.SLACK))
        if old is not None:
            np.frombuffer(new, np.uint8)[: old.size] = np.frombuffer(old, np.uint8)
        self._buffers[number][column] = new
        self.table[number, column] = new.address

    def array(self) -> pa.StructArray:
        """Returns the column."""
        result: Any = self._array(0)
        return result

    def _array(self, number: int) -> pa.Array[Any]:
        kind, row, buffers = self._plan.types[number], self.table[number], self._buffers[number]
        count = int(row[layout.COUNT])
        parts = [buffers[layout.VALID].slice(0, (count + 7) // 8)]
        if layout.ENDS in buffers:
            parts.append(buffers[layout.ENDS].slice(0, 4 * count + 4))
        if layout.DATA in buffers:
            parts.append(buffers[layout.DATA].slice(0, self._data_bytes(number, count)))
        children = [self._array(child) for child in self._plan.children(number)]
        if kind.kind is Kind.MAP:
            children = [_pairs(arrow_type(kind), children)]
        made: Any = pa.Array.from_buffers(arrow_type(kind), count, parts, children=children)
        return made

    def _data_bytes(self, number: int, count: int) -> int:
        kind = self._plan.types[number].kind
        if kind in _TEXTS:
            return int(self.table[number, layout.SIZE])
        return (count + 7) // 8 if kind is Kind.BOOLEAN else _WIDTHS[kind] * count


def _pairs(kind: Any, children: list[pa.Array[Any]]) -> pa.Array[Any]:
    """Returns the entries of a map column: structs of a key and a value."""
    fields = pa.struct([kind.key_field, kind.item_field])
    made: Any = pa.Array.from_buffers(fields, len(children[0]), [None], children=children)
    return made
