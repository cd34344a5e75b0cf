"""The records of the benchmark ``values`` in Avro, and who decodes them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from kfetch.formats.avro.decoder import AvroDecoder
from kfetch.formats.avro.framed import FramedAvro
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.loading import load
from kfetch.formats.registry.schemas import Schema
from tests.kfetch.formats.registry.scripted_registry import framed

__all__ = ["avro_contestants", "avro_documents"]

_NAMES = {
    Kind.LONG: "long",
    Kind.INT: "int",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BOOLEAN: "boolean",
    Kind.TIMESTAMP: "string",
    Kind.DECIMAL: "double",
}


def avro_documents(
    kind: ValueType, records: list[dict[str, object]]
) -> tuple[dict[str, Any], list[bytes]]:
    """Returns the schema of records, and the records in bytes, written by fastavro."""
    schema = _avro(kind, "R")
    parsed, items = fastavro.parse_schema(schema), []
    for record in records:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, record)
        items.append(buffer.getvalue())
    return schema, items


def _avro(kind: ValueType, name: str) -> Any:
    if kind.kind is Kind.STRUCT:
        pairs = zip(kind.names, kind.children, strict=True)
        fields = [{"name": n, "type": _avro(child, f"{name}_{n}")} for n, child in pairs]
        return {"type": "record", "name": name, "fields": fields}
    if kind.kind is Kind.ARRAY:
        return {"type": "array", "items": _avro(kind.children[0], name)}
    return _NAMES[kind.kind]


def avro_contestants(schema: dict[str, Any], items: list[bytes]) -> dict[str, Callable[[], object]]:
    """Returns the work of each contestant."""
    data = b"".join(items) + bytes(64)
    lengths = np.array([len(item) for item in items], np.int32)
    positions = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    decoder, parsed = AvroDecoder(json.dumps(schema), load("avro")), fastavro.parse_schema(schema)
    behind = FramedAvro(decoder, _OneSchema(json.dumps(schema)))  # type: ignore[arg-type]
    one = pa.array([framed(7, item) for item in items], pa.binary())
    four = pa.array([framed(i % 4, item) for i, item in enumerate(items)], pa.binary())
    return {
        "kfetch": lambda: decoder.decode(data, positions, lengths),
        "with headers": lambda: behind.decode_column(one),
        "4 schemas": lambda: behind.decode_column(four),
        "fastavro": lambda: [
            fastavro.schemaless_reader(io.BytesIO(i), parsed, None) for i in items
        ],
    }


class _OneSchema:
    """A registry that has one schema under each id."""

    def __init__(self, text: str) -> None:
        self._text = text

    def by_id(self, number: int) -> Schema:
        """See Registry."""
        return Schema(id=number, version=0, kind="AVRO", text=self._text)
