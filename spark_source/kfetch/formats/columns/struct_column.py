"""The buffers of a struct column that the compiled loops fill, and the table that describes them.

Each type of the schema is a node with buffers of its own. They grow when the loops report that one
is full. At the end they become Arrow arrays without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError
from kfetch.formats.columns import node_table as nodes
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.records.arrow import BATCH_BYTES_MAX, Array
from kfetch.records.memory import Memory, PartIsFull

_TEXTS = (Kind.STRING, Kind.BINARY)
_LISTS = (Kind.ARRAY, Kind.MAP)
_LIST_SLOTS = 64  # of a list's elements at first, at least
_GROWTH = 2
_SLOTS_MAX = BATCH_BYTES_MAX - nodes.SLACK  # the offsets of lists have 32 bits
_VALUE_BYTES_MAX = 128 << 20
_UNFOLDED_MAX = 16
_PARTS_MAX = 4
"""A column may take so many times a part's bytes. A part is planned for lists of one element, and
for text that is spread evenly over the fields. If one field has all text, its buffers grow to three
times the text. To end such a part would double the time that decoding takes."""
_USED = [nodes.COUNT, nodes.SIZE]
_ROOM_OF_TEXT, _ROOM_OF_SLOTS = [nodes.ROOM, nodes.SIZE], [nodes.CAPACITY, nodes.COUNT]


def value_limit(value_bytes: int) -> int:
    """Returns the bytes that the text and the elements of one value may take in all columns.

    Few bytes can unfold to much: ``[{},{}]`` to two rows of all fields, a number to the name of an
    enum. Without a limit, one value could take all memory.
    """
    return max(_VALUE_BYTES_MAX, _UNFOLDED_MAX * value_bytes)


def too_large(value_bytes: int) -> str:
    """Returns why a value is refused that needs more than ``value_limit``."""
    limit = value_limit(value_bytes) >> 20
    return f"its text and its elements take more than {limit} MiB as columns"


_ARROW_SCALARS: dict[Kind, pa.DataType] = {
    Kind.INTERVAL: pa.duration("us"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
}
_WIDTHS = {kind: one.bit_width for kind, one in _ARROW_SCALARS.items() if kind not in _TEXTS}
"""Bits of the values of a fixed width."""
_WIDTHS[Kind.DECIMAL] = 128


def arrow_type(kind: ValueType) -> pa.DataType:
    """Returns the Arrow type of pyspark's ``to_arrow_type``. Spark compares it exactly."""
    children: list[Any] = [arrow_type(child) for child in kind.children]
    match kind.kind:
        case Kind.STRUCT:
            fields = zip(kind.names, children, kind.children, strict=True)
            return pa.struct([pa.field(n, t, nullable=child.nullable) for n, t, child in fields])
        case Kind.ARRAY:
            element: Any = pa.field("element", children[0], nullable=kind.children[0].nullable)
            return pa.list_(element)
        case Kind.MAP:
            key: Any = pa.field("key", children[0], nullable=False)
            value: Any = pa.field("value", children[1], nullable=kind.children[1].nullable)
            return _map_type(key, value)
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
    return _ARROW_SCALARS[kind.kind]


def _map_type(key: Any, value: Any) -> pa.DataType:
    made: pa.DataType = pa.map_(key, value)
    return made


class _Share(NamedTuple):
    """One buffer of a node, and its size."""

    node: int
    column: int
    """Where the table of nodes has its address: nodes.VALID, ENDS or DATA."""
    bits: int
    """Bits for each slot."""
    in_list: bool
    """Whether the node has as many slots as lists have elements, instead of one a record."""
    is_text: bool
    """Whether it holds text, whose size is not known before."""


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
        self._text = pa.py_buffer(b"".join(name + bytes(nodes.SLACK) for name in self._names))
        self.flat_nodes, self.table = self._tables()
        self.arrow_types = [arrow_type(kind) for kind in self.types]
        self.shares_of = [list(self._shares(number)) for number in range(len(self.types))]
        """The buffers of each node."""
        self.shares = [share for shares in self.shares_of for share in shares]
        self.nodes = np.array([share.node for share in self.shares])
        self.columns = np.array([share.column for share in self.shares])
        self.bits = np.array([share.bits for share in self.shares])
        self.in_list = np.array([share.in_list for share in self.shares])
        self.is_text = np.array([share.is_text for share in self.shares])
        self.indexes = {share[:2]: i for i, share in enumerate(self.shares)}
        self.row_bytes = -(-int(self.bits.sum()) // 8)
        """Bytes that a record takes beside its text, if each list has one element."""

    def children(self, number: int) -> range:
        """Returns the numbers of a node's children."""
        first = self._first_children[number]
        return range(first, first + len(self.types[number].children))

    def slot_bits(self, number: int) -> int:
        """Returns the bits of an element of a list, without its text and its own lists."""
        inside = (node for child in self.children(number) for node in self.flat(child))
        return sum(share.bits for node in inside for share in self.shares_of[node])

    def flat(self, number: int) -> Iterator[int]:
        """Yields a node and all fields of structs inside it: they have the same slots."""
        yield number
        if self.types[number].kind is Kind.STRUCT:
            for child in self.children(number):
                yield from self.flat(child)

    def _tables(self) -> tuple[Array, Array]:
        """Returns the table of flat nodes and the table of nodes, without buffers."""
        table = np.zeros((len(self.types), nodes.NODE_WIDTH), np.int64)
        at, flat = self._text.address, list[int]()
        for number, (kind, name) in enumerate(zip(self.types, self._names, strict=True)):
            inside = list(self.flat(number))
            row = table[number]
            row[nodes.KIND] = kind.kind
            row[nodes.FIRST_CHILD] = self._first_children[number]
            row[nodes.CHILDREN] = len(kind.children)
            row[nodes.PRECISION], row[nodes.SCALE] = kind.precision, kind.scale
            row[nodes.NAME], row[nodes.NAME_SIZE] = at, _readable_size(name)
            row[nodes.FLAT], row[nodes.FLAT_COUNT] = len(flat), len(inside)
            at += len(name) + nodes.SLACK
            flat += inside
        return np.array(flat, np.int64), table

    def _shares(self, number: int) -> Iterator[_Share]:
        kind, in_list = self.types[number].kind, self._is_in_list(number)
        if not self.is_key(number):
            yield _Share(number, nodes.VALID, 1, in_list, False)
        if kind in _TEXTS or kind in _LISTS:
            yield _Share(number, nodes.ENDS, 32, in_list, False)
        if kind in _TEXTS:
            yield _Share(number, nodes.DATA, 0, in_list, True)
        elif kind in _WIDTHS:
            yield _Share(number, nodes.DATA, _WIDTHS[kind], in_list, False)

    def is_key(self, number: int) -> bool:
        """Returns whether a node is the key of a map. Keys are never null and have no bits for it.

        Arrow aborts the process for a map whose keys have nulls. Before version 26, it aborts for
        all keys with a validity bitmap whose nulls are not counted yet.
        """
        parent = self.parents[number]
        is_map = number > 0 and self.types[parent].kind is Kind.MAP
        return is_map and number == self._first_children[parent]

    def _is_in_list(self, number: int) -> bool:
        while number > 0:
            number = self.parents[number]
            if self.types[number].kind in _LISTS:
                return True
        return False


def _encoded_names(kind: ValueType) -> list[bytes]:
    if kind.kind is Kind.STRUCT:
        return [name.encode() for name in kind.names]
    return [b""] * len(kind.children)


def _readable_size(name: bytes) -> int:
    """Returns a name's size, if the loops for JSON may compare its bytes."""
    is_escaped = any(byte < 32 or byte in b'"\\' for byte in name)
    return nodes.UNREADABLE if is_escaped or len(name) > nodes.NAME_LENGTH_MAX else len(name)


class StructColumn:
    """One struct column that is being filled: its nodes and their buffers."""

    def __init__(self, plan: Plan, rows: int, data_bytes: int, memory: Memory) -> None:
        """``rows``: the records. ``data_bytes``: those of all values. ``memory``: what counts."""
        self._plan = plan
        self._memory = memory
        self.table = plan.table.copy()
        slots = np.where(plan.in_list, max(_LIST_SLOTS, rows), rows)
        room = data_bytes // max(int(plan.is_text.sum()), 1) + 4 * nodes.SLACK
        room = min(room, BATCH_BYTES_MAX)
        # One allocation for all: each one costs time. Unwritten pages cost only address space.
        sizes = np.where(plan.is_text, room, (slots * plan.bits >> 3) + 8)
        sizes = (sizes + 63) & ~63
        starts = np.cumsum(sizes) - sizes
        self._size = int(sizes.sum())
        memory.reserve(self._size)
        self._whole = pa.allocate_buffer(self._size)
        self._starts = starts.tolist()
        self._grown: dict[tuple[int, int], pa.Buffer] = {}
        self._stuck_row = -1
        """The row of the last value that needed more room."""
        self._filled: dict[int, int] = {}
        """Bytes that this value has filled of each buffer that was full."""
        self._before = self.table[:, _USED]
        """How full the buffers were before this value."""
        self.table[plan.nodes, plan.columns] = starts + self._whole.address
        self.table[plan.nodes, nodes.CAPACITY] = slots
        self.table[plan.nodes, nodes.ROOM] = room
        buffer: Any = self._whole
        whole = np.frombuffer(buffer, np.uint8)
        for at in starts[plan.columns == nodes.ENDS].tolist():
            whole[at : at + 4] = 0

    @property
    def rows(self) -> int:
        """The records that are written."""
        return int(self.table[0, nodes.COUNT])

    def grow(self, stuck: int, value_bytes: int) -> bool:
        """Makes room: for text in node ``stuck``, or for slots in the list's child ``~stuck``.

        ``value_bytes``: the size of the value that needs it. What was written of it is taken back.
        Returns False if the value would take more than ``value_limit``.
        Raises PartIsFull if the value belongs to the next part, which never holds for the first
        one. Raises KfetchError for more text or elements than a column can hold.
        """
        if self._stuck_row != self.rows:
            self._stuck_row, self._filled = self.rows, {}
            self._before = self.table[:, _USED]
        is_text = stuck >= 0
        number = stuck if is_text else ~stuck
        parent = self._plan.parents[number]
        bits, most = (8, BATCH_BYTES_MAX) if is_text else (self._plan.slot_bits(parent), _SLOTS_MAX)
        room, used = self.table[number, _ROOM_OF_TEXT if is_text else _ROOM_OF_SLOTS].tolist()
        self._filled[stuck] = (room - used) * bits // 8
        left = value_limit(value_bytes) - sum(self._filled.values())
        larger = _larger(room, room + 8 * left // bits, most)
        if not larger:
            return False
        self._check_part(larger * bits // 8)
        if is_text:
            self._resize(number, nodes.DATA, room, larger)
            self.table[number, nodes.ROOM] = larger
            return True
        for sibling in self._plan.children(parent):
            for inner in self._plan.flat(sibling):
                self._resize_slots(inner, room, larger)
        return True

    def may_exceed(self, value_bytes: int) -> bool:
        """Returns whether the last value that needed room may take more than ``value_limit``.

        ``grow`` counts only the buffers that the value has filled.
        """
        return self._size > value_limit(value_bytes)

    def take_back(self, value_bytes: int) -> bool:
        """Takes back the last value that needed room, if it takes more than ``value_limit``.

        Returns whether it does. No row may be behind the value.
        """
        plan = self._plan
        slots, sizes = (self.table[:, _USED] - self._before)[plan.nodes].T
        bits = slots[plan.in_list] @ plan.bits[plan.in_list] + 8 * sizes[plan.is_text].sum()
        is_too_large = bool(bits > 8 * value_limit(value_bytes))
        if is_too_large:
            self.table[:, _USED] = self._before
        return is_too_large

    def _check_part(self, growth: int) -> None:
        """Raises PartIsFull if the column has rows, and no room in this part for more bytes."""
        limit = self._memory.part_bytes
        if limit is not None and self.rows and self._size + growth > _PARTS_MAX * limit:
            raise PartIsFull

    def _resize_slots(self, number: int, slots: int, larger: int) -> None:
        for share in self._plan.shares_of[number]:
            if not share.is_text:
                old, new = ((n * share.bits >> 3) + 8 for n in (slots, larger))
                self._resize(number, share.column, old, new)
        self.table[number, nodes.CAPACITY] = larger

    def _resize(self, number: int, column: int, old_size: int, size: int) -> None:
        self._memory.reserve(size)
        self._size += size
        new: Any = pa.allocate_buffer(size)
        old: Any = self._buffer(number, column, old_size)
        np.frombuffer(new, np.uint8)[:old_size] = np.frombuffer(old, np.uint8)
        if (number, column) in self._grown:
            self._memory.release(old_size)
            self._size -= old_size
        self._grown[number, column] = new
        self.table[number, column] = new.address

    def _buffer(self, number: int, column: int, size: int) -> pa.Buffer:
        """Returns the first bytes of a buffer."""
        grown = self._grown.get((number, column))
        if grown is not None:
            return grown.slice(0, size)
        return self._whole.slice(self._starts[self._plan.indexes[number, column]], size)

    def array(self) -> pa.StructArray:
        """Returns the column."""
        result: pa.StructArray = self._array(0)
        return result

    def _array(self, number: int) -> Any:
        row = self.table[number]
        count, size = int(row[nodes.COUNT]), int(row[nodes.SIZE])
        kind, arrow_kind = self._plan.types[number].kind, self._plan.arrow_types[number]
        parts: list[pa.Buffer | None] = [None]
        if not self._plan.is_key(number):
            parts = [self._buffer(number, nodes.VALID, (count + 7) // 8)]
        if kind in _TEXTS or kind in _LISTS:
            parts.append(self._buffer(number, nodes.ENDS, 4 * count + 4))
        if kind in _TEXTS:
            parts.append(self._buffer(number, nodes.DATA, size))
        elif kind in _WIDTHS:
            parts.append(self._buffer(number, nodes.DATA, (count * _WIDTHS[kind] + 7) // 8))
        children = [self._array(child) for child in self._plan.children(number)]
        if kind is Kind.MAP:
            children = [_pairs(arrow_kind, children)]
        return pa.Array.from_buffers(arrow_kind, count, parts, children=children)


def _larger(room: int, most: int, limit: int) -> int:
    """Returns the next size of a buffer; 0 if a single value has filled the room up to ``most``.

    Raises KfetchError if the buffer has reached ``limit``.
    """
    if room >= most:
        return 0
    if room >= limit:
        raise KfetchError(
            "the values of one decode call have more text or elements than an Arrow batch holds",
            action="lower kafka.max.partition.fetch.bytes",
        )
    return min(_GROWTH * room, most, limit)


def _pairs(kind: Any, children: list[Any]) -> Any:
    """Returns the entries of a map column: structs of a key and a value."""
    fields = pa.struct([kind.key_field, kind.item_field])
    return pa.Array.from_buffers(fields, len(children[0]), [None], children=children)


def positions_of(column: pa.Array[Any]) -> tuple[memoryview, Array, Array]:
    """Returns the bytes of a binary column, where each value starts, and the values' lengths.

    Positions and lengths are int32. The length of a null is -1.
    """
    parts: Any = column.buffers()
    if not len(column) or parts[2] is None:
        parts[2] = pa.py_buffer(b"")
    ends = np.frombuffer(parts[1], np.int32)[column.offset :][: len(column) + 1]
    lengths = np.diff(ends) if len(column) else np.array([], np.int32)
    if column.null_count:
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, -1)
    return memoryview(parts[2]), ends[: len(column)], lengths
