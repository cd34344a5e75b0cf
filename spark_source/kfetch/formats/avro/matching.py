"""Which branch of a reader's union a writer's type takes, as Java's Avro library decides.

Spark uses Java's ``Resolver`` (Avro 1.12). It is looser than the specification: records match by
their fields, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfetch.formats.avro.schema import MISSING, NAMED, AvroField, AvroType

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def is_promotion(writer: AvroType, reader: AvroType) -> bool:
    """Returns whether a reader of another primitive type can read the writer's."""
    return reader.kind in _PROMOTIONS.get(writer.kind, ())


def matching_branch(writer: AvroType, union: AvroType) -> int:
    """Returns the number of the branch that reads a writer's type, which is no union; -1 for none.

    The same type or name comes first, then records with the same fields, then promotions.
    """
    same = [i for i, branch in enumerate(union.inside) if branch.kind == writer.kind]
    if writer.kind not in NAMED:
        if same:
            return same[0]
    else:
        for i in same:
            if union.inside[i].name == writer.name:
                return i
        if writer.kind == "record":
            found = _record_branch(writer, union, same)
            if found >= 0:
                return found
    promoted = (i for i, branch in enumerate(union.inside) if is_promotion(writer, branch))
    return next(promoted, -1)


def _record_branch(writer: AvroType, union: AvroType, records: list[int]) -> int:
    """Returns the first record that can read the writer's, or the last of the same short name."""
    found = -1
    for i in records:
        branch = union.inside[i]
        if _fits(writer, branch) and (found < 0 or writer.short_name == branch.short_name):
            found = i
    return found


def missing_field(writer: AvroType, reader: AvroType) -> AvroField | None:
    """Returns the first field of a record that the writer's lacks, and that has no default."""
    fields = (field for field in reader.fields if field.default is MISSING)
    return next((field for field in fields if writer.field(field.name) is None), None)


def _fits(writer: AvroType, reader: AvroType) -> bool:
    """Returns whether no field of a record is in error. Fields inside fields do not count."""
    if missing_field(writer, reader) is not None:
        return False
    pairs = ((field.type, reader.field(field.name)) for field in writer.fields)
    return all(found is None or not _is_error(kind, found.type) for kind, found in pairs)


def _is_error(writer: AvroType, reader: AvroType) -> bool:
    if writer.kind == "union":
        return False  # its branches decide when one is read
    if reader.kind == "union":
        return writer.kind != reader.kind and matching_branch(writer, reader) < 0
    if writer.kind != reader.kind:
        return not is_promotion(writer, reader)
    if writer.kind == "fixed":
        return writer.short_name != reader.short_name or writer.size != reader.size
    if writer.kind == "enum":
        return writer.short_name != reader.short_name
    if writer.kind == "record":
        return missing_field(writer, reader) is not None
    return False


def are_equivalent(writer: AvroType, reader: AvroType) -> bool:
    """Returns whether two unions have the same branches in the same order."""
    return _outline(writer) == _outline(reader)


def _outline(kind: AvroType) -> tuple[object, ...]:
    inside = [*map(_outline, kind.inside)]
    fields = [(field.name, _outline(field.type)) for field in kind.fields]
    return kind.kind, kind.short_name, kind.size, kind.symbols, inside, fields


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
