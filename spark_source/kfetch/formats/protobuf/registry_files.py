"""Protobuf files as schema registries give them: each is the Base64 of a FileDescriptorProto."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from kfetch.formats.protobuf.fields import (
    Damaged,
    all_of,
    fields_of,
    inner_name,
    message_of,
    number_of,
    sized_field,
    text_of,
)


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
        name = inner_name(name, text_of(declared[index], 1))
        messages = all_of(declared[index], 3)
    return name


def lacks_descriptors(registry: str, number: int) -> str:
    """Returns the sentence about a schema that a registry has only as text."""
    return (
        f"the schema registry {registry} gives schema {number} only as the text of a "
        ".proto file, and kfetch needs its descriptors (?format=serialized)"
    )
