"""The schema that a sample of JSON documents has, by the rules of Spark's ``spark.read.json``.

Integers are BIGINT, or DECIMAL beyond 64 bits. Other numbers are DOUBLE. Fields are in order of
their names. Values of different types have the type that takes both, which often is STRING. A field
that is null, "" or [] in the whole sample is a STRING. Source: Spark 4.2's JsonInferSchema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from kfetch.formats.columns.types import DEPTH_MAX, Kind, ValueType, list_of, struct_of
from kfetch.formats.json.characters import BadDocument
from kfetch.formats.json.scalars import joined, well_formed
from kfetch.formats.json.tokens import Token, Tokens
from kfetch.records.java_text import java_text

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_PRECISION_MAX = 38  # DecimalType.MAX_PRECISION
_LONG_DIGITS = 20  # DecimalType.forType(LongType)


class TooDeep(BadDocument):
    """A document with more levels than a schema can have."""


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type that values at one place of the sample have in common."""

    kind: Kind | None = None
    """None if all values are null, "" or missing."""
    precision: int = 0
    scale: int = 0
    fields: Mapping[str, InferredType] = field(default_factory=dict)
    """Those of a struct."""
    element: InferredType | None = None
    """That of an array."""


NO_TYPE = InferredType()
_BOOLEAN, _LONG, _DOUBLE, _STRING = map(
    InferredType, (Kind.BOOLEAN, Kind.LONG, Kind.DOUBLE, Kind.STRING)
)


def inferred_type(document: bytes) -> InferredType:
    """Returns the type of one document. Raises BadDocument for bytes that are no JSON.

    Raises TooDeep for more than 32 levels: they have no schema.
    """
    tokens = Tokens(java_text(document))
    if tokens.next() is None:
        return NO_TYPE
    return _value(tokens, 1)


def merged(types: Iterable[InferredType]) -> InferredType:
    """Returns the type that takes the values of all these types."""
    return reduce(_common, types, NO_TYPE)


def mixed(types: Iterable[InferredType], path: str = "") -> Iterator[tuple[str, Counter[Kind]]]:
    """Yields each field that is a STRING only because documents have several types.

    ``types``: the type of each document. A field has its path, such as ``a.b``, and the number of
    documents with each kind. An array's elements have the path of the array.
    """
    present = [one for one in types if one.kind is not None]
    kinds = Counter(one.kind for one in present if one.kind is not None)
    whole = merged(present)
    if whole.kind is Kind.STRING and len(kinds) > 1:
        yield path, kinds
    elif whole.kind is Kind.ARRAY:
        yield from mixed((one.element or NO_TYPE for one in present), path)
    for name in sorted(whole.fields):
        inside = (one.fields.get(name, NO_TYPE) for one in present)
        yield from mixed(inside, f"{path}.{name}" if path else name)


def schema_of(root: InferredType) -> ValueType:
    """Returns a struct for ``valueSchema``. It has no fields if no document is an object.

    Fields whose name is empty or has half a surrogate pair are left out: DDL can't name them.
    """
    fields = [(name, at) for name, at in root.fields.items() if name and name == well_formed(name)]
    kinds = [(name, _type(at)) for name, at in sorted(fields)]
    return struct_of([(name, kind) for name, kind in kinds if kind is not None])


def _type(at: InferredType) -> ValueType | None:
    """Returns the type of a field; None for a struct without fields, which Spark drops too."""
    if at.kind is Kind.STRUCT:
        struct = schema_of(at)
        return struct if struct.children else None
    if at.kind is Kind.ARRAY:
        element = _type(at.element or NO_TYPE)
        return None if element is None else list_of(element)
    return ValueType(at.kind or Kind.STRING, at.precision, at.scale)


def _value(tokens: Tokens, level: int) -> InferredType:
    """Returns the type of the value at the current token, and reads to its end.

    ``level``: that of an object or array which starts here. The document itself has level 1.
    """
    if level > DEPTH_MAX and tokens.token in (Token.START_OBJECT, Token.START_ARRAY):
        what = f"more than {DEPTH_MAX} levels lie inside each other, which no schema can describe"
        raise TooDeep(what, tokens.bad(what).at)
    match tokens.token:
        case Token.START_OBJECT:
            return _object(tokens, level)
        case Token.START_ARRAY:
            return _array(tokens, level)
        case Token.STRING:
            return _STRING if tokens.text() else NO_TYPE
        case Token.INTEGER:
            return _integer(int(tokens.text()))
        case Token.FLOAT:
            return _DOUBLE
        case Token.TRUE | Token.FALSE:
            return _BOOLEAN
    return NO_TYPE


def _object(tokens: Tokens, level: int) -> InferredType:
    fields: dict[str, InferredType] = {}
    while tokens.next() is not Token.END_OBJECT:
        name = joined(tokens.name or "")
        tokens.next()
        fields[name] = _common(fields.get(name, NO_TYPE), _value(tokens, level + 1))
    return InferredType(Kind.STRUCT, fields=fields)


def _array(tokens: Tokens, level: int) -> InferredType:
    element = NO_TYPE
    while tokens.next() is not Token.END_ARRAY:
        element = _common(element, _value(tokens, level + 1))
    return InferredType(Kind.ARRAY, element=element)


def _integer(number: int) -> InferredType:
    if _LONG_MIN <= number <= _LONG_MAX:
        return _LONG
    digits = len(str(abs(number)))
    return InferredType(Kind.DECIMAL, digits) if digits <= _PRECISION_MAX else _DOUBLE


def _common(one: InferredType, other: InferredType) -> InferredType:
    """Returns the type that takes the values of both: Spark's ``compatibleType``."""
    if one == other or other.kind is None:
        return one
    if one.kind is None:
        return other
    kinds = {one.kind, other.kind}
    if kinds == {Kind.STRUCT}:
        names = [*one.fields, *(name for name in other.fields if name not in one.fields)]
        both = {n: _common(one.fields.get(n, NO_TYPE), other.fields.get(n, NO_TYPE)) for n in names}
        return InferredType(Kind.STRUCT, fields=both)
    if kinds == {Kind.ARRAY}:
        element = _common(one.element or NO_TYPE, other.element or NO_TYPE)
        return InferredType(Kind.ARRAY, element=element)
    if not kinds <= {Kind.LONG, Kind.DECIMAL, Kind.DOUBLE}:
        return _STRING
    if Kind.DOUBLE in kinds:
        return _DOUBLE
    return InferredType(Kind.DECIMAL, max(_digits(one), _digits(other)))


def _digits(at: InferredType) -> int:
    return _LONG_DIGITS if at.kind is Kind.LONG else at.precision


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
        found = inferred_type(document)
    except BadDocument:
        return
    if found.kind is Kind.STRUCT:
        yield from missing_in(schema, schema_of(found))
