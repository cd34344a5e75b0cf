"""Reads a FileDescriptorSet: the messages and enums that ``protoc --descriptor_set_out`` writes.

A FileDescriptorSet is a Protobuf message itself (google/protobuf/descriptor.proto). This reader
knows the fields that change how values are decoded. It refuses files whose rules it does not know.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.values.protobuf_layout import ENUM_TYPE, GROUP_TYPE, MESSAGE_TYPE, STRING_TYPE

__all__ = ["Descriptors", "EnumType", "Field", "MessageType", "read_descriptors"]

_WRITE_IT = "write the file with `protoc --include_imports --descriptor_set_out=FILE`"
_LABEL_REQUIRED, _LABEL_REPEATED = 2, 3

Value = int | bytes


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum."""

    name: str
    """Its name without the package, which Java uses for unknown numbers."""
    names: dict[int, str]
    """The first name of each number."""
    numbers: dict[str, int]
    """The number of each name."""
    first: int
    """The number that stands first: the default."""
    is_closed: bool
    """Whether other numbers count as unknown fields: in proto2."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message."""

    name: str
    number: int
    type: int
    """The number of FieldDescriptorProto.Type."""
    type_name: str
    """The full name of its message or enum."""
    is_repeated: bool
    is_required: bool
    oneof: int
    """The number of its oneof in the message, -1 for none."""
    has_presence: bool
    """Whether an absent field differs from one with the default value."""
    is_strict: bool
    """Whether text that is not UTF-8 is an error."""
    is_closed: bool
    """Whether unknown numbers of its enum count as unknown fields."""
    default: bytes | None
    """The text of the default that its file gives it: UTF-8, for bytes with C's escapes."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's type."""

    full_name: str
    fields: tuple[Field, ...]
    is_map_entry: bool

    @property
    def name(self) -> str:
        """The name without the package and the messages around it."""
        return self.full_name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The types of all files."""

    messages: dict[str, MessageType]
    """By their full names."""
    enums: dict[str, EnumType]
    top_level: tuple[str, ...]
    """Full names of the messages that lie in no other, in their order."""
    column: str = "value"
    """The column whose options name the file, for errors."""

    def message(self, name: str) -> MessageType:
        """Returns a message by its full name. At the top level, the name without package will do.

        Raises OptionError if there is none.
        """
        for full_name in self.top_level:
            if name in (full_name, full_name.rpartition(".")[2]):
                return self.messages[full_name]
        if name in self.messages:
            return self.messages[name]
        near = difflib.get_close_matches(name, self.messages, n=1)
        example = f"set {self.column}Message to the full name of a message, such as "
        raise OptionError(
            f"the file of option {self.column}Descriptor has no message {name!r}",
            action=f"did you mean {near[0]}?" if near else example + "shop.Order",
            option=f"{self.column}Message",
        )


class _Scope(NamedTuple):
    """What a file says about everything in it."""

    is_proto3: bool
    checks_text: bool
    option: str
    """The option that names the file."""


class _Damaged(Exception):
    """The bytes are no FileDescriptorSet. It says why."""


def read_descriptors(data: bytes, *, column: str = "value") -> Descriptors:
    """Returns the types of a FileDescriptorSet.

    ``column``: the one whose option names the file, for errors. Raises OptionError if the
    bytes are none, or if a type is missing. Raises NotBuilt for editions.
    """
    option = f"{column}Descriptor"
    found = Descriptors({}, {}, ())
    top: list[str] = []
    try:
        for file in _all(_fields(data), 1):
            top += _read_file(file, found, option)
    except RecursionError:
        raise _bad("its messages lie too deep inside each other", option) from None
    except _Damaged as damage:
        raise _bad(str(damage), option) from None
    if not top:
        raise _bad("it has no message", option)
    return Descriptors(found.messages, found.enums, tuple(top), column)


def _read_file(file: bytes, found: Descriptors, option: str) -> list[str]:
    """Adds a file's types. Returns the full names of its messages."""
    fields = list(_fields(file))
    syntax = _text(fields, 12) or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise NotBuilt(
            f"the Protobuf file {_text(fields, 1)} has the syntax {syntax}, which is not built yet",
            action="use proto2 or proto3, or decode the value in the DataFrame",
            option=option,
        )
    options = _message(fields, 8)
    scope = _Scope(syntax == "proto3", syntax == "proto3" or bool(_number(options, 27)), option)
    package = _text(fields, 2)
    for enum in _all(fields, 5):
        _read_enum(enum, package, scope, found)
    return [_read_message(message, package, scope, found) for message in _all(fields, 4)]


def _read_enum(data: bytes, outer: str, scope: _Scope, found: Descriptors) -> None:
    fields = list(_fields(data))
    name, names, by_name = _text(fields, 1), dict[int, str](), dict[str, int]()
    values = [list(_fields(value)) for value in _all(fields, 2)]
    numbers = [_signed(_number(value, 2), 32) for value in values]
    for number, value in zip(numbers, values, strict=True):
        by_name[_text(value, 1)] = number
        names.setdefault(number, _text(value, 1))
    if not numbers:
        raise _Damaged(f"the enum {name} has no values")
    enum = EnumType(name, names, by_name, numbers[0], not scope.is_proto3)
    found.enums[_inside(outer, name)] = enum


def _read_message(data: bytes, outer: str, scope: _Scope, found: Descriptors) -> str:
    """Adds a message and those inside it. Returns its full name."""
    fields = list(_fields(data))
    full_name = _inside(outer, _text(fields, 1))
    options = _message(fields, 7)
    if _number(options, 1):
        raise NotBuilt(
            f"the message {full_name} has message_set_wire_format, which is not built",
            action="decode the value in the DataFrame",
            option=scope.option,
        )
    is_map_entry = bool(_number(options, 7))
    for enum in _all(fields, 4):
        _read_enum(enum, full_name, scope, found)
    for message in _all(fields, 3):
        _read_message(message, full_name, scope, found)
    inner = scope._replace(checks_text=scope.checks_text or is_map_entry)
    parsed = tuple(_read_field(field, inner) for field in _all(fields, 2))
    found.messages[full_name] = MessageType(full_name, parsed, is_map_entry)
    return full_name


def _read_field(data: bytes, scope: _Scope) -> Field:
    fields = list(_fields(data))
    kind, label = _number(fields, 5), _number(fields, 4)
    oneof = next((value for number, value in fields if number == 9), -1)
    is_single_scalar = label != _LABEL_REPEATED and kind not in (MESSAGE_TYPE, GROUP_TYPE)
    default = next((value for number, value in fields if number == 7), None)
    return Field(
        name=_text(fields, 1),
        number=_number(fields, 3),
        type=kind,
        type_name=_text(fields, 6).removeprefix("."),
        is_repeated=label == _LABEL_REPEATED,
        is_required=label == _LABEL_REQUIRED,
        oneof=oneof if isinstance(oneof, int) else -1,
        has_presence=not (scope.is_proto3 and is_single_scalar and oneof == -1),
        is_strict=kind == STRING_TYPE and scope.checks_text,
        is_closed=kind == ENUM_TYPE and not scope.is_proto3,
        default=default if isinstance(default, bytes) else None,
    )


def _inside(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


# Protobuf's wire format, for these few messages.


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yields the numbers and values of a message's fields. Raises _Damaged."""
    at = 0
    while at < len(data):
        label, at = _varint(data, at)
        wire = label & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield label >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            size, at = _varint(data, at)
        elif not size:
            raise _Damaged(f"byte {at} is no field")
        if at + size > len(data):
            raise _Damaged("it ends inside a field")
        if wire == 2:
            yield label >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70 and at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise _Damaged("it ends inside a number" if at == len(data) else f"byte {at} is no number")


def _all(fields: Iterable[tuple[int, Value]], number: int) -> list[bytes]:
    """Returns the values of a repeated field of messages."""
    return [value for found, value in fields if found == number and isinstance(value, bytes)]


def _message(fields: list[tuple[int, Value]], number: int) -> list[tuple[int, Value]]:
    """Returns the fields of a message inside: its parts merged, as the format has it."""
    return list(_fields(b"".join(_all(fields, number))))


def _text(fields: list[tuple[int, Value]], number: int) -> str:
    values = _all(fields, number)
    try:
        return values[-1].decode() if values else ""
    except UnicodeDecodeError:
        raise _Damaged("a name is not UTF-8") from None


def _number(fields: list[tuple[int, Value]], number: int) -> int:
    values = [value for found, value in fields if found == number and isinstance(value, int)]
    return values[-1] if values else 0


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _bad(why: str, option: str) -> OptionError:
    return OptionError(
        f"the file of option {option} is no FileDescriptorSet: {why}",
        action=_WRITE_IT,
        option=option,
    )
