"""The tables that the compiled Protobuf loops read: fields, enums, and nodes of lists."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kfetch.errors import OptionError
from kfetch.formats.columns.struct_column import Plan
from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.schema import Item
from kfetch.formats.protobuf.types import EnumType

_WIRES = {
    table.DOUBLE_TYPE: table.WIRE64,
    table.FIXED64_TYPE: table.WIRE64,
    table.SFIXED64_TYPE: table.WIRE64,
    table.FLOAT_TYPE: table.WIRE32,
    table.FIXED32_TYPE: table.WIRE32,
    table.SFIXED32_TYPE: table.WIRE32,
    table.STRING_TYPE: table.SIZED_WIRE,
    table.BYTES_TYPE: table.SIZED_WIRE,
    table.MESSAGE_TYPE: table.SIZED_WIRE,
}
"""Wire types of types. The others are numbers of variable length."""
_UNKNOWN = "UNKNOWN_ENUM_VALUE_{}_"
"""The start of the name that Java gives a number without a name."""


class MessagePlan:
    """The tables of a message. Records share them, except for ``fields``, which each run copies."""

    def __init__(self, root: Item, *, column: str = "value") -> None:
        """``column``: the one whose options name the file, for errors."""
        if root.type is None:
            raise ValueError("the message has no columns")
        self.nodes = Plan(root.type)
        """The nodes of the columns."""
        self._column = column
        self._items = [root]
        self._parents = [-1]
        self._first: list[int] = []
        for item in self._items:  # which grows meanwhile
            self._first.append(len(self._items))
            ordered = sorted(item.children, key=_number)
            self._parents += [len(self._first) - 1] * len(ordered)
            self._items += ordered
        self._rows = {id(item): row for row, item in enumerate(self._items)}
        self._columns: dict[int, tuple[int, int, int]] = {0: (0, -1, -1)}
        self._place(root, 0)
        self._texts = _Texts()
        self._flat: list[int] = []
        self._subtrees: list[int] = []
        self._enums: list[list[int]] = []
        self._enum_rows: dict[str, int] = {}
        rows = [self._row(row, item) for row, item in enumerate(self._items)]
        self.fields = np.array(rows, np.int64)
        self.enums = np.array(self._enums or [[0] * table.ENUM_WIDTH], np.int64)
        self._add_addresses()
        self.flat = np.array(self._flat or [0], np.int64)
        self.subtrees = np.array(self._subtrees or [0], np.int64)

    def _place(self, item: Item, node: int) -> None:
        """Notes the nodes of an item's children. ``node``: that of the item, or of its element."""
        visible = [child for child in item.children if child.type is not None]
        if item.is_entry:
            visible.sort(key=lambda child: child.field is not None and child.field.name != "key")
        for child, column in zip(visible, self.nodes.children(node), strict=False):
            row = self._rows[id(child)]
            inner = self.nodes.children(column)
            if child.is_entry:
                self._columns[row] = -1, column, inner[0]
                self._place(child, column)
            elif child.is_repeated:
                self._columns[row] = inner[0], column, inner[0]
                self._place(child, inner[0])
            else:
                self._columns[row] = column, -1, -1
                self._place(child, column)

    def _row(self, number: int, item: Item) -> list[int]:
        row = [0] * table.FIELD_WIDTH
        column, list_node, probe = self._columns.get(number, (-1, -1, -1))
        row[table.COLUMN], row[table.LIST], row[table.PROBE] = column, list_node, probe
        row[table.PARENT], row[table.FIRST] = self._parents[number], self._first[number]
        row[table.COUNT], row[table.SHAPE] = len(item.children), item.shape
        row[table.TYPE], row[table.WIRE] = table.MESSAGE_TYPE, table.SIZED_WIRE
        row[table.ONEOF] = -1
        flat = list(self._flattened(number))
        row[table.FLAT], row[table.FLAT_COUNT] = len(self._flat), len(flat)
        self._flat += flat
        if list_node >= 0:
            subtree = list(self._subtree(list_node))
            row[table.SUBTREE], row[table.SUBTREE_COUNT] = len(self._subtrees), len(subtree)
            self._subtrees += subtree
        if item.shape == table.TIME:
            seconds, nanos = (self._rows[id(child)] for child in item.children)
            row[table.SECONDS], row[table.NANOS] = seconds, nanos
        self._describe(row, item, in_entry=self._items[self._parents[number]].is_entry)
        return row

    def _describe(self, row: list[int], item: Item, *, in_entry: bool) -> None:
        each = item.field
        if each is None:
            return
        row[table.NUMBER], row[table.TYPE] = each.number, each.type
        row[table.WIRE] = _WIRES.get(each.type, table.VARINT_WIRE)
        row[table.REPEATED], row[table.REQUIRED] = each.is_repeated, each.is_required
        row[table.ONEOF] = each.oneof
        row[table.IMPLICIT], row[table.STRICT] = not each.has_presence, each.is_strict
        row[table.CLOSED] = item.is_closed
        # An entry of a map without a key or a value has the default.
        row[table.DEFAULTED] = in_entry or (each.default is not None and not each.is_repeated)
        if item.enum is not None:
            row[table.ENUM] = self._enum_row(each.type_name, item.enum)
        if item.shape == table.SCALAR and row[table.DEFAULTED]:
            default = _default(item, self._column)
            if isinstance(default, bytes):
                row[table.DEFAULT_SIZE] = len(default)
                row[table.DEFAULT] = self._texts.add(default)
            else:
                row[table.DEFAULT] = default

    def _flattened(self, number: int) -> Iterator[int]:
        """Yields the fields of a message and of single messages inside it, parents first."""
        first = self._first[number]
        for child in range(first, first + len(self._items[number].children)):
            yield child
            if not self._items[child].is_repeated:
                yield from self._flattened(child)

    def _subtree(self, node: int) -> Iterator[int]:
        yield node
        for child in self.nodes.children(node):
            yield from self._subtree(child)

    def _enum_row(self, name: str, enum: EnumType) -> int:
        if name not in self._enum_rows:
            self._enum_rows[name] = len(self._enums)
            unknown = _UNKNOWN.format(enum.name).encode()
            self._enums.append([len(enum.names), self._texts.add(unknown), len(unknown)])
            for number, text in sorted(enum.names.items()):
                encoded = text.encode()
                self._enums.append([number, self._texts.add(encoded), len(encoded)])
        return self._enum_rows[name]

    def _add_addresses(self) -> None:
        """Makes addresses of the positions in the buffer of texts."""
        self._buffer = self._texts.buffer()
        self.enums[:, table.NAME_ADDRESS] += self._buffer.address
        types = self.fields[:, table.TYPE]
        is_text = (types == table.STRING_TYPE) | (types == table.BYTES_TYPE)
        self.fields[is_text, table.DEFAULT] += self._buffer.address


class _Texts:
    """Collects texts in one buffer."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, text: bytes) -> int:
        """Returns the position of a text."""
        self._data += text
        return len(self._data) - len(text)

    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(bytes(self._data) + bytes(8))


def _number(item: Item) -> int:
    return item.field.number if item.field is not None else 0


def _default(item: Item, column: str) -> int | bytes:
    """Returns the default of a scalar: its bits, or its text. Raises OptionError."""
    each = item.field
    if each is None:
        return 0
    try:
        return _parsed_default(item, each.type, each.default)
    except (ValueError, KeyError, OverflowError, struct.error):
        raise OptionError(
            f"the field {each.name} has the default {each.default!r}, which does not fit its type",
            action="write the file with protoc",
            option=f"{column}Descriptor",
        ) from None


def _parsed_default(item: Item, kind: int, text: bytes | None) -> int | bytes:
    if item.enum is not None:
        return item.enum.first if text is None else item.enum.numbers[text.decode()]
    if kind == table.STRING_TYPE:
        return text or b""
    if kind == table.BYTES_TYPE:
        return _unescaped(text or b"")
    if text is None:
        return 0
    if kind == table.BOOL_TYPE:
        return {b"true": 1, b"false": 0}[text]
    if kind == table.DOUBLE_TYPE:
        return int(struct.unpack("<q", struct.pack("<d", float(text)))[0])
    if kind == table.FLOAT_TYPE:
        return int(struct.unpack("<i", struct.pack("<f", float(text)))[0])
    wide = kind in (table.UINT64_TYPE, table.FIXED64_TYPE)
    narrow = kind in (table.UINT32_TYPE, table.FIXED32_TYPE)
    number = int(text)
    if wide and number >> 63:
        number -= 1 << 64
    if narrow and number >> 31:
        number -= 1 << 32
    return number


def _unescaped(text: bytes) -> bytes:
    """Returns bytes from their text with C's escapes."""
    return text.decode("unicode_escape").encode("latin-1")
