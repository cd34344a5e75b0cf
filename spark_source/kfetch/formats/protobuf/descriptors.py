"""Reads a FileDescriptorSet: the messages and enums that ``protoc --descriptor_set_out`` writes.

A FileDescriptorSet is a Protobuf message itself (google/protobuf/descriptor.proto). This reader
knows the fields that change how values are decoded. It refuses files whose rules it does not know.

``protoc`` writes the full name of each field's type. Schema registries may give names as they stand
in the .proto file, and leave out whether a type is a message or an enum. So fields are read when
all types are known.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.protobuf.field_table import ENUM_TYPE, GROUP_TYPE, MESSAGE_TYPE, STRING_TYPE
from kfetch.formats.protobuf.fields import (
    Damaged,
    all_of,
    fields_of,
    inner_name,
    message_of,
    number_of,
    signed,
    text_of,
)
from kfetch.formats.protobuf.types import WELL_KNOWN, EnumType, Field, MessageType, add_well_known

_WRITE_IT = "write the file with `protoc --include_imports --descriptor_set_out=FILE`"
_LABEL_REQUIRED, _LABEL_REPEATED = 2, 3
_NESTED_MAX = 100


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


class _FileScope(NamedTuple):
    """What a file says about everything in it."""

    is_proto3: bool
    checks_text: bool
    option: str
    """The option that names the file."""


class _Declared(NamedTuple):
    """A message whose fields are not read yet."""

    full_name: str
    fields: list[bytes]
    is_map_entry: bool
    scope: _FileScope


def read_descriptors(data: bytes, *, column: str = "value") -> Descriptors:
    """Returns the types of a FileDescriptorSet, and those of Google that it may lack.

    ``column``: the one whose option names the file, for errors. Raises OptionError if the
    bytes are none, or if a type is missing. Raises NotBuilt for editions.
    """
    option = f"{column}Descriptor"
    declared, enums, top = list[_Declared](), dict[str, EnumType](), list[str]()
    try:
        for file in all_of(fields_of(data), 1):
            top += _read_file(file, declared, enums, option)
        types = dict.fromkeys(WELL_KNOWN, MESSAGE_TYPE) | dict.fromkeys(enums, ENUM_TYPE)
        types |= {message.full_name: MESSAGE_TYPE for message in declared}
        messages = {message.full_name: _message_type(message, types) for message in declared}
    except Damaged as damage:
        raise _bad(str(damage), option) from None
    if not top:
        raise _bad("it has no message", option)
    add_well_known(messages, enums)
    return Descriptors(messages, enums, tuple(top), column)


def _read_file(
    file: bytes, declared: list[_Declared], enums: dict[str, EnumType], option: str
) -> list[str]:
    """Adds a file's types. Returns the full names of its messages."""
    fields = list(fields_of(file))
    syntax = text_of(fields, 12) or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise NotBuilt(
            f"the Protobuf file {text_of(fields, 1)} has the syntax {syntax}, which is not built "
            "yet",
            action="use proto2 or proto3, or decode the value in the DataFrame",
            option=option,
        )
    options = message_of(fields, 8)
    is_proto3 = syntax == "proto3"
    scope = _FileScope(is_proto3, is_proto3 or bool(number_of(options, 27)), option)
    package = text_of(fields, 2)
    for enum in all_of(fields, 5):
        _read_enum(enum, package, scope, enums)
    return [
        _read_message(message, package, scope, declared, enums) for message in all_of(fields, 4)
    ]


def _read_enum(data: bytes, outer: str, scope: _FileScope, enums: dict[str, EnumType]) -> None:
    fields = list(fields_of(data))
    name, names, by_name = text_of(fields, 1), dict[int, str](), dict[str, int]()
    values = [list(fields_of(value)) for value in all_of(fields, 2)]
    numbers = [signed(number_of(value, 2), 32) for value in values]
    for number, value in zip(numbers, values, strict=True):
        by_name[text_of(value, 1)] = number
        names.setdefault(number, text_of(value, 1))
    if not numbers:
        raise Damaged(f"the enum {name} has no values")
    enum = EnumType(name, names, by_name, numbers[0], not scope.is_proto3)
    enums[inner_name(outer, name)] = enum


def _read_message(
    data: bytes,
    outer: str,
    scope: _FileScope,
    declared: list[_Declared],
    enums: dict[str, EnumType],
    depth: int = 0,
) -> str:
    """Adds a message and those inside it. Returns its full name."""
    if depth > _NESTED_MAX:
        raise Damaged("its messages lie too deep inside each other")
    fields = list(fields_of(data))
    full_name = inner_name(outer, text_of(fields, 1))
    options = message_of(fields, 7)
    if number_of(options, 1):
        raise NotBuilt(
            f"the message {full_name} has message_set_wire_format, which is not built",
            action="decode the value in the DataFrame",
            option=scope.option,
        )
    is_map_entry = bool(number_of(options, 7))
    for enum in all_of(fields, 4):
        _read_enum(enum, full_name, scope, enums)
    for message in all_of(fields, 3):
        _read_message(message, full_name, scope, declared, enums, depth + 1)
    inner = scope._replace(checks_text=scope.checks_text or is_map_entry)
    declared.append(_Declared(full_name, all_of(fields, 2), is_map_entry, inner))
    return full_name


def _message_type(message: _Declared, types: dict[str, int]) -> MessageType:
    """``types``: all full names, and whether each is a message or an enum."""
    name, scope = message.full_name, message.scope
    fields = tuple(_read_field(field, name, scope, types) for field in message.fields)
    return MessageType(name, fields, message.is_map_entry)


def _read_field(data: bytes, owner: str, scope: _FileScope, types: dict[str, int]) -> Field:
    fields = list(fields_of(data))
    label, type_name = number_of(fields, 4), _resolved(text_of(fields, 6), owner, types)
    # Registries leave out the type of a field whose type has a name.
    kind = number_of(fields, 5) or types.get(type_name, 0)
    oneof = next((value for number, value in fields if number == 9), -1)
    is_single_scalar = label != _LABEL_REPEATED and kind not in (MESSAGE_TYPE, GROUP_TYPE)
    default = next((value for number, value in fields if number == 7), None)
    return Field(
        name=text_of(fields, 1),
        number=number_of(fields, 3),
        type=kind,
        type_name=type_name,
        is_repeated=label == _LABEL_REPEATED,
        is_required=label == _LABEL_REQUIRED,
        oneof=oneof if isinstance(oneof, int) else -1,
        has_presence=not (scope.is_proto3 and is_single_scalar and oneof == -1),
        is_strict=kind == STRING_TYPE and scope.checks_text,
        is_closed=kind == ENUM_TYPE and not scope.is_proto3,
        default=default if isinstance(default, bytes) else None,
    )


def _resolved(name: str, scope: str, types: dict[str, int]) -> str:
    """Returns the full name of a field's type. ``scope``: the full name of its message.

    As in .proto files, names of inner scopes come first.
    """
    if name.startswith("."):
        return name[1:]
    while name and scope:
        if f"{scope}.{name}" in types:
            return f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    return name


def _bad(why: str, option: str) -> OptionError:
    return OptionError(
        f"the file of option {option} is no FileDescriptorSet: {why}",
        action=_WRITE_IT,
        option=option,
    )
