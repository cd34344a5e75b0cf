"""The decoder of Protobuf in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.errors import OptionError
from kfetch.formats.columns.decoded import DecodedColumn, Problem
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.formats.protobuf.fields import Damaged
from kfetch.formats.protobuf.registry_files import lacks_descriptors, message_at, serialized_file
from kfetch.formats.registry.framing import SchemaCache, answer_for, bodies, body
from kfetch.formats.registry.headers import SchemaHeader, read_header
from kfetch.formats.registry.schemas import Schema, SchemaSource, SchemaUnknown
from kfetch.records.memory import UNLIMITED, Memory

_SCHEMAS_MAX = 2_000
"""Headers whose messages a decoder keeps."""


class FramedProtobuf:
    """Decodes messages of one type, whose writers may have older or newer files."""

    def __init__(self, decoder: ProtobufDecoder, registry: SchemaSource) -> None:
        self._decoder, self._registry = decoder, registry
        self.row_bytes = decoder.row_bytes
        self._refusals = SchemaCache[str](_SCHEMAS_MAX)

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See ProtobufDecoder. Raises SchemaUnavailable, too."""
        data, positions, lengths, headers = bodies(column, indexed=True)
        refusals = [
            answer_for(headers, number, partial(self._refusal, header, memory))
            for number, header in enumerate(headers.distinct)
        ]
        if not any(refusals):
            return self._decoder.decode(data, positions, lengths, memory)
        refused = np.array([*map(bool, refusals), False])[headers.which]
        decoded = self._decoder.decode(data, positions, np.where(refused, -1, lengths), memory)
        corrupt = np.union1d(decoded.corrupt, np.flatnonzero(refused)).astype(np.int32)
        return decoded._replace(corrupt=corrupt)

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value can't be decoded, and where; None if it can."""
        header = read_header(value, indexed=True)
        refusal = self._refusal(header, memory)
        if refusal:
            return Problem(refusal, header.at)
        found = self._decoder.problem(value[header.size :], memory)
        return Problem(found.what, found.at + header.size) if found else None

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the numbers of the fields that the reader's message lacks."""
        return self._decoder.unknown_fields(body(value, indexed=True))

    def _refusal(self, header: SchemaHeader, memory: Memory) -> str:
        """Returns why values with a header can't be decoded; empty if they can."""
        if header.damage:
            return header.damage
        try:
            return self._refusals.get(
                (header.id, header.indexes),
                lambda: self._checked(header.id, header.indexes, memory),
            )
        except SchemaUnknown as unknown:
            return str(unknown)

    def _checked(self, number: int, indexes: Sequence[int], memory: Memory) -> str:
        source = f"schema {number}"
        with memory.idle():
            schema = self._registry.by_id(number, form="serialized")
        if schema.kind != "PROTOBUF":
            return f"{source} of the registry is of type {schema.kind}, not PROTOBUF"
        try:
            name = message_at(_file_of(schema, self._registry), indexes)
        except Damaged as damage:
            return f"{source} of the registry is damaged: {damage}"
        if not name:
            return f"{source} of the registry has no message at {list(indexes)}"
        if name == self._decoder.full_name:
            return ""
        return f"it is a message {name}, and the query reads {self._decoder.full_name}"


def _file_of(schema: Schema, registry: SchemaSource) -> bytes:
    """Returns the FileDescriptorProto of a Protobuf schema.

    Raises OptionError if the registry gives only the text of a .proto file.
    """
    file = serialized_file(schema.text)
    if file is None:
        raise OptionError(
            lacks_descriptors(registry.name, schema.id),
            action="use a registry that has them; docs/how-to/schema-registry.md names some",
        )
    return file
