"""The names of Protobuf types: which ones files declare, and which one a field means.

``protoc`` writes the full name of each field's type. Schema registries may give names as they stand
in the .proto file, and leave out whether a type is a message or an enum.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kfetch.formats.protobuf.field_table import ENUM_TYPE, MESSAGE_TYPE
from kfetch.formats.protobuf.fields import (
    Damaged,
    all_of,
    fields_of,
    message_of,
    number_of,
    sized_field,
    text_of,
)

_NESTED_MAX = 100


class TypeNames(NamedTuple):
    """The types of all files."""

    types: dict[str, int]
    """Full names, and whether each is a message or an enum: a FieldDescriptorProto.Type."""

    def resolved(self, name: str, scope: str) -> str:
        """Returns the full name of a field's type. ``scope``: the full name of its message.

        As in .proto files, names of inner scopes come first.
        """
        if name.startswith("."):
            return name[1:]
        while name and scope:
            if f"{scope}.{name}" in self.types:
                return f"{scope}.{name}"
            scope = scope.rpartition(".")[0]
        return name


def declared_names(files: Sequence[bytes], known: Iterable[str] = ()) -> TypeNames:
    """Returns the types that files declare, and messages that are known. Raises Damaged."""
    types = dict.fromkeys(known, MESSAGE_TYPE)
    for file in files:
        fields = list(fields_of(file))
        package = text_of(fields, 2)
        _add(package, all_of(fields, 4), all_of(fields, 5), types, 0)
    return TypeNames(types)


def _add(
    outer: str, messages: list[bytes], enums: list[bytes], types: dict[str, int], depth: int
) -> None:
    if depth > _NESTED_MAX:
        raise Damaged("its messages lie too deep inside each other")
    for enum in enums:
        types[_inside(outer, text_of(list(fields_of(enum)), 1))] = ENUM_TYPE
    for message in messages:
        fields = list(fields_of(message))
        name = _inside(outer, text_of(fields, 1))
        types[name] = MESSAGE_TYPE
        _add(name, all_of(fields, 3), all_of(fields, 4), types, depth + 1)


def _inside(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def serialized_file(text: str) -> bytes | None:
    """Returns the FileDescriptorProto of a registry's Base64; None for other text.

    A .proto file is no Base64, because it has braces.
    """
    try:
        file = base64.b64decode(text, validate=True)
        fields = list(fields_of(file))
        is_file = bool(all_of(fields, 4) or all_of(fields, 5) or all_of(fields, 1))
    except (binascii.Error, ValueError, Damaged):
        return None
    return file if is_file else None


def descriptor_set(files: Sequence[bytes]) -> bytes:
    """Returns the FileDescriptorSet of files."""
    return b"".join(sized_field(1, file) for file in files)


def message_at(file: bytes, indexes: Sequence[int]) -> str:
    """Returns the full name of the message at a place in a file; empty if there is none.

    ``indexes``: the number of the message in its file, then in the message around it. Entries of
    maps do not count, as in Confluent's library for Java. Raises Damaged.
    """
    fields = list(fields_of(file))
    name, messages = text_of(fields, 2), all_of(fields, 4)
    for index in indexes:
        written = [list(fields_of(message)) for message in messages]
        declared = [inner for inner in written if not number_of(message_of(inner, 7), 7)]
        if index >= len(declared):
            return ""
        name = _inside(name, text_of(declared[index], 1))
        messages = all_of(declared[index], 3)
    return name


def lacks_descriptors(registry: str, number: int) -> str:
    """Returns the sentence about a schema that a registry has only as text."""
    return (
        f"the schema registry {registry} gives schema {number} only as the text of a "
        ".proto file, and kfetch needs its descriptors (?format=serialized)"
    )
