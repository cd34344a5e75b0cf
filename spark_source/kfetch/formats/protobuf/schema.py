"""The struct that a Protobuf message becomes, with the rules of Spark's ``from_protobuf``.

Spark drops messages without fields, and reads each message named Timestamp or Duration with the
fields seconds and nanos as a time. Dropped fields stay in the tree, because their bytes count: they
may be damaged, and they may end another field of their oneof.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.columns.types import Kind, ValueType, list_of, struct_of
from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.descriptors import Descriptors
from kfetch.formats.protobuf.fields import Damaged, fields_of
from kfetch.formats.protobuf.types import EnumType, Field, MessageType

FIELDS_MAX = 10_000
"""Fields of a message, those of messages inside it included."""

_KINDS = {
    table.DOUBLE_TYPE: Kind.DOUBLE,
    table.FLOAT_TYPE: Kind.FLOAT,
    table.INT64_TYPE: Kind.LONG,
    table.UINT64_TYPE: Kind.LONG,
    table.INT32_TYPE: Kind.INT,
    table.FIXED64_TYPE: Kind.LONG,
    table.FIXED32_TYPE: Kind.INT,
    table.BOOL_TYPE: Kind.BOOLEAN,
    table.STRING_TYPE: Kind.STRING,
    table.BYTES_TYPE: Kind.BINARY,
    table.UINT32_TYPE: Kind.INT,
    table.ENUM_TYPE: Kind.STRING,
    table.SFIXED32_TYPE: Kind.INT,
    table.SFIXED64_TYPE: Kind.LONG,
    table.SINT32_TYPE: Kind.INT,
    table.SINT64_TYPE: Kind.LONG,
}
_TIMES = {"Timestamp": Kind.TIMESTAMP, "Duration": Kind.INTERVAL}


@dataclass(slots=True)
class Item:
    """A field of the message, or of a message inside it; or the message itself."""

    field: Field | None
    """None: the message itself."""
    shape: int
    """What its values become (``field_table``)."""
    type: ValueType | None
    """The type of its column, None if Spark drops it. For a repeated field, that of the list."""
    children: list[Item] = dataclasses.field(default_factory=list)
    """The fields of its message, in their order in the file."""
    enum: EnumType | None = None
    is_closed: bool = False
    is_entry: bool = False
    """Whether its message is the entry of a map."""

    @property
    def is_repeated(self) -> bool:
        """Whether it has a list."""
        return self.field is not None and self.field.is_repeated


def message_tree(descriptors: Descriptors, name: str) -> Item:
    """Returns the tree of a message's fields.

    Raises OptionError for a message that is missing, has no fields or contains itself. Raises
    NotBuilt for groups.
    """
    message = descriptors.message(name)
    root = Item(None, table.STRUCT_SHAPE, None)
    root.children = _Builder(descriptors).children(message, (message.full_name,))
    root.type = _struct(root.children)
    if root.type is None:
        raise _refused(
            f"the message {message.full_name} has no fields, so it is no struct",
            descriptors.column,
        )
    return root


def _struct(children: list[Item]) -> ValueType | None:
    """Returns the struct of the fields that have columns, None without any."""
    fields = [(child.field.name, child.type) for child in children if child.field and child.type]
    return struct_of(fields) if fields else None


class _Builder:
    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._column = descriptors.column
        self._count = 0

    def children(self, message: MessageType, path: tuple[str, ...]) -> list[Item]:
        """Returns the fields of a message. ``path``: the messages around them."""
        if len(path) > table.DEPTH_MAX:
            raise self._refused(f"the message {path[0]} has more than {table.DEPTH_MAX} levels")
        self._count += len(message.fields)
        if self._count > FIELDS_MAX:
            raise self._refused(f"the message {path[0]} has more than {FIELDS_MAX} fields inside")
        return [self._item(each, message.full_name, path) for each in message.fields]

    def _item(self, each: Field, owner: str, path: tuple[str, ...]) -> Item:
        if each.type == table.GROUP_TYPE:
            raise NotBuilt(
                f"the field {owner}.{each.name} is a group, which is not built",
                action="decode the value in the DataFrame, or use a message without groups",
                option=f"{self._column}Message",
            )
        if each.type == table.MESSAGE_TYPE:
            return self._message(each, owner, path)
        if each.type not in _KINDS:
            raise self._refused(f"the field {owner}.{each.name} has the unknown type {each.type}")
        item = Item(each, table.SCALAR, _placed(ValueType(_KINDS[each.type]), each))
        if each.type == table.ENUM_TYPE:
            item.enum = self._enum(each)
            item.is_closed = each.is_closed or item.enum.is_closed
        return item

    def _enum(self, each: Field) -> EnumType:
        if each.type_name not in self._descriptors.enums:
            raise _missing(each.type_name, self._column)
        return self._descriptors.enums[each.type_name]

    def _message(self, each: Field, owner: str, path: tuple[str, ...]) -> Item:
        message = self._descriptors.messages.get(each.type_name)
        if message is None:
            raise _missing(each.type_name, self._column)
        kind = _time_of(message, self._column)
        if kind is not None:
            item = Item(each, table.TIME, _placed(ValueType(kind), each))
            item.children = [_hidden(child) for child in self.children(message, path)]
            return item
        is_entry = message.is_map_entry and each.is_repeated
        if message.full_name in path:
            raise self._refused(
                f"the message {message.full_name} contains itself, in the field {owner}.{each.name}"
            )
        inner = path if is_entry else (*path, message.full_name)
        item = Item(each, table.STRUCT_SHAPE, None, self.children(message, inner))
        item.is_entry = is_entry
        return _typed_map(item) if is_entry else _typed_struct(item)

    def _refused(self, why: str) -> OptionError:
        return _refused(why, self._column)


def _time_of(message: MessageType, column: str) -> Kind | None:
    """Returns the type of a message that Spark reads as a time, None for others."""
    if [each.name for each in message.fields] != ["seconds", "nanos"]:
        return None
    kind = _TIMES.get(message.name)
    seconds, nanos = (_KINDS.get(each.type) for each in message.fields)
    repeated = any(each.is_repeated for each in message.fields)
    if kind is not None and (seconds != Kind.LONG or nanos != Kind.INT or repeated):
        raise _refused(
            f"Spark takes the message {message.full_name} for a time, but its fields have other "
            "types than int64 and int32",
            column,
        )
    return kind


def _typed_struct(item: Item) -> Item:
    kind = _struct(item.children)
    if kind is None or item.field is None:
        return _hidden(item)
    item.type = _placed(kind, item.field)
    return item


def _typed_map(item: Item) -> Item:
    by_name = {child.field.name: child for child in item.children if child.field}
    key, value = by_name["key"].type, by_name["value"].type
    if key is None or value is None:
        return _hidden(item)
    not_null = replace(value, nullable=False)
    item.shape = table.HIDDEN
    item.type = ValueType(Kind.MAP, children=(replace(key, nullable=False), not_null))
    return item


def _placed(kind: ValueType, each: Field) -> ValueType:
    """Returns the type of a field's column: a list for a repeated field."""
    if each.is_repeated:
        return list_of(replace(kind, nullable=False))
    return replace(kind, nullable=not each.is_required)


def _hidden(item: Item) -> Item:
    """Returns a field that has no column, and nothing in it has one."""
    item.type = None
    if item.shape != table.SCALAR:
        item.shape = table.HIDDEN
    for child in item.children:
        _hidden(child)
    return item


def _missing(name: str, column: str) -> OptionError:
    return OptionError(
        f"the file of option {column}Descriptor has no type {name}",
        action="write the file with `protoc --include_imports --descriptor_set_out=FILE`",
        option=f"{column}Descriptor",
    )


def _refused(why: str, column: str) -> OptionError:
    return OptionError(
        why,
        action="choose another message, or decode the value in the DataFrame",
        option=f"{column}Message",
    )


def unknown_in_protobuf(message: bytes, known: Item, prefix: str = "") -> Iterator[str]:
    """Yields the numbers of the fields of a message that its type lacks. It ends at damage."""
    fields = {child.field.number: child for child in known.children if child.field}
    with suppress(Damaged):
        for number, value in fields_of(message):
            child = fields.get(number)
            if child is None or child.field is None:
                yield f"{prefix}#{number}"
            elif child.children and isinstance(value, bytes):
                yield from unknown_in_protobuf(value, child, f"{prefix}{child.field.name}.")
