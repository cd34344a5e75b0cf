"""Which branch of a reader's union a writer's type takes, as Java's Avro library decides.

Spark uses Java's ``Resolver`` (Avro 1.12). It is looser than the specification: records match by
their fields, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kfetch.formats.avro.schema import MISSING, NAMED, AvroType

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


def _fits(writer: AvroType, reader: AvroType) -> bool:
    """Returns whether no field of a record is in error. Fields inside fields do not count."""
    if any(f.default is MISSING and writer.field(f.name) is None for f in reader.fields):
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
        return any(f.default is MISSING and writer.field(f.name) is None for f in reader.fields)
    return False


def are_equivalent(writer: AvroType, reader: AvroType) -> bool:
    """Returns whether two unions have the same branches in the same order."""
    return _same(writer, reader, {})


def _same(writer: AvroType, reader: AvroType, known: dict[tuple[int, int], bool]) -> bool:
    if writer.kind != reader.kind or (
        writer.kind in NAMED and writer.short_name != reader.short_name
    ):
        return False
    pair = id(writer), id(reader)
    if pair not in known:
        known[pair] = _same_inside(writer, reader, lambda a, b: _same(a, b, known))
    return known[pair]


def _same_inside(
    writer: AvroType, reader: AvroType, same: Callable[[AvroType, AvroType], bool]
) -> bool:
    if writer.size != reader.size or writer.symbols != reader.symbols:
        return False
    if [field.name for field in writer.fields] != [field.name for field in reader.fields]:
        return False
    if len(writer.inside) != len(reader.inside):
        return False
    inside = [*zip(writer.inside, reader.inside, strict=True)]
    fields = zip(writer.fields, reader.fields, strict=True)
    return all(same(a, b) for a, b in [*inside, *((a.type, b.type) for a, b in fields)])


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
