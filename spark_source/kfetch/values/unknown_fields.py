"""Names of fields that a value has and its schema lacks. Slow: for samples.

A field of Protobuf is known by its number only: ``#7``, or ``item.#7`` in a message inside.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfetch.values.avro_matching import matching_branch
from kfetch.values.avro_schema import AvroType
from kfetch.values.infer import schema_of, seen
from kfetch.values.protobuf_schema import Item
from kfetch.values.tokens import BadDocument
from kfetch.values.types import Kind, ValueType

__all__ = ["missing_in", "unknown_in_avro", "unknown_in_json", "unknown_in_protobuf"]


def missing_in(schema: ValueType, sample: ValueType, prefix: str = "") -> Iterator[str]:
    """Yields the paths of the fields of a struct ``sample`` that ``schema`` lacks."""
    known = dict(zip(schema.names, schema.children, strict=True))
    for name, kind in zip(sample.names, sample.children, strict=True):
        if name not in known:
            yield prefix + name
            continue
        inner, of_schema = kind, known[name]
        while inner.kind is of_schema.kind is Kind.ARRAY:
            inner, of_schema = inner.children[0], of_schema.children[0]
        if inner.kind is of_schema.kind is Kind.STRUCT:
            yield from missing_in(of_schema, inner, f"{prefix}{name}.")


def unknown_in_json(document: bytes, schema: ValueType) -> Iterator[str]:
    """Yields the fields of a document that a struct lacks; none of a damaged document."""
    try:
        found = seen(document)
    except BadDocument:
        return
    if found.kind is Kind.STRUCT:
        yield from missing_in(schema, schema_of(found))


def unknown_in_avro(writer: AvroType, reader: AvroType, prefix: str = "") -> Iterator[str]:
    """Yields the fields that the writer's schema has and the reader's lacks."""
    if writer.kind == "union":
        for branch in writer.inside:
            yield from unknown_in_avro(branch, reader, prefix)
        return
    if reader.kind == "union":
        number = matching_branch(writer, reader)
        if number >= 0:
            yield from unknown_in_avro(writer, reader.inside[number], prefix)
        return
    if writer.kind != reader.kind:
        return
    for field in writer.fields:
        known = reader.field(field.name)
        if known is None:
            yield prefix + field.name
        else:
            yield from unknown_in_avro(field.type, known.type, f"{prefix}{field.name}.")
    for one, other in zip(writer.inside, reader.inside, strict=True):
        yield from unknown_in_avro(one, other, prefix)


_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX = 10


def unknown_in_protobuf(message: bytes, known: Item, prefix: str = "") -> Iterator[str]:
    """Yields the numbers of the fields of a message that its type lacks. It ends at damage."""
    fields = {child.field.number: child for child in known.children if child.field}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        size = _FIXED_SIZES.get(wire, 0)
        if wire in (_VARINT, _SIZED):
            size, start = _varint(message, at)
            size, at = (size, start) if wire == _SIZED else (0, start)
        elif not size:
            return  # a group, or damage
        if at < 0 or at + size > len(message):
            return
        child = fields.get(number)
        if child is None or child.field is None:
            yield f"{prefix}#{number}"
        elif child.children and wire == _SIZED:
            inner = f"{prefix}{child.field.name}."
            yield from unknown_in_protobuf(message[at : at + size], child, inner)
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number and the place behind it, which is beyond the data for a damaged one."""
    number = 0
    for shift, byte in enumerate(data[at : at + _VARINT_BYTES_MAX] if at >= 0 else b""):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, at + shift + 1
    return 0, len(data) + 1
