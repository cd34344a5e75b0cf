"""Avro as a format of keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kfetch.formats.avro import instructions
from kfetch.formats.avro.decoder import AvroDecoder, reader_type
from kfetch.formats.avro.options import AvroColumn
from kfetch.formats.columns.types import ValueType
from kfetch.formats.format import Format

if TYPE_CHECKING:
    from kfetch.formats.avro.framed import FramedAvro
    from kfetch.formats.columns.decoded import FormatLoop
    from kfetch.formats.registry.schemas import Schema, SchemaSource


class _AvroFormat(Format[AvroColumn]):
    title = "Avro"
    parameters = instructions.PARAMETERS
    loop_modules = ("instructions", "value_loops")

    def value_type(self, column: AvroColumn) -> ValueType:
        return reader_type(**_schemas(column))

    def decoder(self, column: AvroColumn, loop: FormatLoop) -> AvroDecoder:
        return AvroDecoder(loops=loop, **_schemas(column))

    def framed(self, decoder: AvroDecoder, registry: SchemaSource) -> FramedAvro:
        from kfetch.formats.avro.framed import FramedAvro

        return FramedAvro(decoder, registry)

    def has_schema(self, column: AvroColumn) -> bool:
        return bool(column.reader_schema)

    def with_schema(self, column: AvroColumn, schema: Schema, _registry: str) -> AvroColumn:
        return replace(column, reader_schema=schema.text, references=schema.references)


def _schemas(column: AvroColumn) -> dict[str, Any]:
    """Returns what ``AvroDecoder`` needs of a column."""
    if column.registry:
        source, references = column.type_option, column.references
        return {"writer": column.reader_schema, "source": source, "references": references}
    source = f"{column.column}Schema"
    return {"writer": column.schema, "reader": column.reader_schema, "source": source}


FORMAT = _AvroFormat()
