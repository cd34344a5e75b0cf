"""Protobuf as a format of keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kfetch.errors import OptionError
from kfetch.formats.columns.types import ValueType
from kfetch.formats.format import FileReader, Format
from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.decoder import ProtobufDecoder, message_type
from kfetch.formats.protobuf.descriptors import read_descriptors
from kfetch.formats.protobuf.options import ProtobufColumn
from kfetch.formats.protobuf.registry_files import (
    descriptor_set,
    lacks_descriptors,
    message_at,
    serialized_file,
)

if TYPE_CHECKING:
    from kfetch.formats.columns.decoded import FormatLoop
    from kfetch.formats.protobuf.framed import FramedProtobuf
    from kfetch.formats.registry.schemas import Schema, SchemaSource


class _ProtobufFormat(Format[ProtobufColumn]):
    title = "Protobuf"
    parameters = table.PARAMETERS
    loop_modules = ("field_table", "row_loops", "text_loops", "wire_loops")
    schema_form = "serialized"

    def value_type(self, column: ProtobufColumn) -> ValueType:
        return message_type(
            column.descriptors, column.message, nullable=column.flat, column=column.column
        )

    def decoder(self, column: ProtobufColumn, loop: FormatLoop) -> ProtobufDecoder:
        return ProtobufDecoder(
            column.descriptors, column.message, loop, nullable=column.flat, column=column.column
        )

    def framed(self, decoder: ProtobufDecoder, registry: SchemaSource) -> FramedProtobuf:
        from kfetch.formats.protobuf.framed import FramedProtobuf

        return FramedProtobuf(decoder, registry)

    def with_files(self, column: ProtobufColumn, read: FileReader) -> ProtobufColumn:
        if not column.path or column.descriptors:
            return column
        return replace(column, descriptors=read(column.path, f"{column.column}Descriptor"))

    def has_schema(self, column: ProtobufColumn) -> bool:
        return bool(column.descriptors)

    def with_schema(self, column: ProtobufColumn, schema: Schema, registry: str) -> ProtobufColumn:
        files = [serialized_file(text) for text in (schema.text, *schema.references)]
        known = [file for file in files if file is not None]
        if len(known) < len(files):
            name = column.column
            raise OptionError(
                lacks_descriptors(registry, schema.id),
                action=f"set {name}Descriptor to a file of protoc, and {name}Message",
                option=f"{name}Registry",
            )
        message = column.message or message_at(known[0], (0,))
        descriptors = descriptor_set(known)
        types = read_descriptors(descriptors, column=column.column)
        return replace(column, descriptors=descriptors, message=types.message(message).full_name)


FORMAT = _ProtobufFormat()
