"""One record's value decoded with the exact meaning of Spark's ``from_json``, slowly.

The rules are those of Spark 4.2's JacksonParser with spark.sql.json.enablePartialResults: a field
that can't be converted is null, and the record counts as corrupt. ``tokens`` reads the document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kfetch.formats.columns.ddl import kind_text, type_text
from kfetch.formats.columns.decoded import Problem
from kfetch.formats.columns.struct_column import value_limit
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.json.characters import BadDocument
from kfetch.formats.json.scalars import (
    decimal_of,
    double_of,
    float32_of,
    is_decimal,
    java_double,
    joined,
    json_text,
    non_number,
    well_formed,
)
from kfetch.formats.json.times import Zones, date_of, local_timestamp_of, timestamp_of
from kfetch.formats.json.tokens import Token, Tokens
from kfetch.records.java_text import java_text

JsonValue = Any
"""None, bool, int, float, str, bytes, or a list: of a struct's fields, an array's elements, or a
map's pairs. A decimal is its number without the point; dates are days; times are microseconds."""


_PLACE_MAX = 100  # characters of a place in an error
_OBJECT_BYTES, _CELL_BYTES = 56, 24  # of a list, and of an element with its text in ``substitute``
_CHARACTER_BYTES = 4  # at most, as Python's string and as UTF-8


class ReferenceRow(NamedTuple):
    """One decoded record."""

    row: list[JsonValue] | None
    """The struct's fields; None for an empty value, whose struct is null."""
    problem: Problem | None
    """Why the record is corrupt, if it is."""
    is_too_large: bool = False
    """Whether the problem is only that Python needs too much memory for the record."""


class _TooLarge(Exception):
    """The row takes more memory than one value may have."""


def decode(data: bytes | memoryview, schema: ValueType, zones: Zones) -> ReferenceRow:
    """Returns the row of a value. ``schema``: a struct, without the corrupt record's column."""
    text = java_text(bytes(data))
    tokens = Tokens(text)
    limit = value_limit(len(data))
    converter = _Converter(tokens, zones, limit)
    nothing: list[JsonValue] = [None] * len(schema.children)
    try:
        if tokens.next() is None:
            return ReferenceRow(None, None)
        row, cause = converter.root(schema), converter.cause
        return ReferenceRow(row, None if cause is None else problem_of(cause, text))
    except BadDocument as error:
        return ReferenceRow(nothing, problem_of(error, text))
    except _TooLarge:
        what = f"its text and its elements take more than {limit >> 20} MiB in Python"
        return ReferenceRow(nothing, Problem(what, 0), is_too_large=True)


def problem_of(error: BadDocument, text: str) -> Problem:
    """Returns the problem of a document's text."""
    return Problem(error.what, len(text[: error.at].encode("utf-8", "replace")))


class _Converter:
    """Converts the tokens of one document."""

    def __init__(self, tokens: Tokens, zones: Zones, limit: int) -> None:
        """``limit``: bytes that the row may take as Python's objects."""
        self._tokens = tokens
        self._bytes_left = limit
        self._zones = zones
        self._path: list[str] = []  # of the schema, so that errors show no data
        self.cause: BadDocument | None = None
        """Why the first part that is null could not be converted. Errors behind it do not count."""

    def root(self, schema: ValueType) -> list[JsonValue]:
        """Returns the fields of the document, null for those in error. Raises BadDocument."""
        token = self._tokens.token
        if token is Token.START_OBJECT:
            return self._object(schema)
        if token is Token.NULL:
            raise self._tokens.bad("the document is null")
        if token is Token.START_ARRAY:
            raise self._tokens.bad("the document is an array")
        raise self._tokens.bad("the document is no object")

    def _value(self, kind: ValueType) -> JsonValue:
        if self._tokens.token is Token.NAME:
            self._tokens.next()
        token = self._tokens.token
        if token is None or token is Token.NULL:
            return None
        return _CONVERTERS[kind.kind](self, kind, token)

    def _refused(self, kind: ValueType) -> BadDocument:
        """Returns the error for a token that does not fit the type. Reads a string to its end."""
        tokens = self._tokens
        if tokens.token is Token.STRING and not tokens.text():
            return tokens.bad(f"field {self._place} is an empty string, no {kind_text(kind.kind)}")
        return tokens.bad(f"field {self._place} is no {kind_text(kind.kind)}")

    @property
    def _place(self) -> str:
        """The path in the schema, as Spark prints it: ``m.value.a`` is in the values of a map."""
        path = ".".join(self._path)
        return path if len(path) <= _PLACE_MAX else f"{path[: _PLACE_MAX - 1]}…"

    def _charge(self, size: int) -> None:
        """Count bytes of Python's objects."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _TooLarge

    def _inner(self, kind: ValueType, name: str) -> JsonValue:
        """Returns the value of a field, an element or a map's value."""
        self._path.append(name)
        try:
            return self._value(kind)
        finally:
            self._path.pop()

    # Structs, arrays, maps.

    def _object(self, kind: ValueType) -> list[JsonValue]:
        tokens = self._tokens
        self._charge(_OBJECT_BYTES + _CELL_BYTES * len(kind.children))
        row: list[JsonValue] = [None] * len(kind.children)
        indexes = {name: i for i, name in enumerate(kind.names)}
        while tokens.next() not in (None, Token.END_OBJECT):
            index = indexes.get(joined(tokens.name or "")) if tokens.name is not None else None
            if index is None:
                tokens.skip_children()
                continue
            before = self.cause
            try:
                row[index] = self._inner(kind.children[index], kind.names[index])
            except BadDocument as error:
                self.cause = before or error  # what the field noted is null with it
                tokens.skip_children()
        return row

    def _struct(self, kind: ValueType, token: Token) -> JsonValue:
        if token is not Token.START_OBJECT:
            raise self._refused(kind)
        return self._object(kind)

    def _array(self, kind: ValueType, token: Token) -> JsonValue:
        if token is not Token.START_ARRAY:
            raise self._refused(kind)
        self._charge(_OBJECT_BYTES)
        elements = []
        while self._tokens.next() not in (None, Token.END_ARRAY):
            self._charge(_CELL_BYTES)
            elements.append(self._inner(kind.children[0], "element"))
        return elements

    def _map(self, kind: ValueType, token: Token) -> JsonValue:
        """Returns pairs, with repeated keys as they are. One bad value makes the map null."""
        if token is not Token.START_OBJECT:
            raise self._refused(kind)
        self._charge(_OBJECT_BYTES)
        pairs, failed = [], None
        while self._tokens.next() not in (None, Token.END_OBJECT):
            key = well_formed(self._tokens.name or "")
            self._charge(_OBJECT_BYTES + 2 * _CELL_BYTES + _CHARACTER_BYTES * len(key))
            try:
                pairs.append((key, self._inner(kind.children[1], "value")))
            except BadDocument as error:
                failed = failed or error
                self._tokens.skip_children()
        if failed:
            raise failed
        return pairs

    # Scalars.

    def _boolean(self, kind: ValueType, token: Token) -> bool:
        if token is Token.TRUE or token is Token.FALSE:
            return token is Token.TRUE
        raise self._refused(kind)

    def _integer(self, kind: ValueType, token: Token) -> int:
        if token is not Token.INTEGER:
            raise self._refused(kind)
        value, (least, greatest) = int(self._tokens.text()), _RANGES[kind.kind]
        if not least <= value <= greatest:
            raise self._tokens.bad(f"field {self._place} is out of range")
        # Jackson takes a byte up to 255 and keeps its eight bits.
        return value - 256 if kind.kind is Kind.BYTE and value > 127 else value

    def _float(self, kind: ValueType, token: Token) -> float:
        if token in (Token.INTEGER, Token.FLOAT):
            text = self._tokens.text()
            value = non_number(text)
            if value is not None:
                return value
            if kind.kind is Kind.FLOAT:
                return float32_of(text)
            return double_of(text)
        word = non_number(self._tokens.text()) if token is Token.STRING else None
        if word is None:
            raise self._refused(kind)
        return word

    def _decimal(self, kind: ValueType, token: Token) -> int:
        if token not in (Token.INTEGER, Token.FLOAT, Token.STRING):
            raise self._refused(kind)
        text = self._tokens.text()
        number = text.replace(",", "") if token is Token.STRING else text
        value = decimal_of(number, kind.precision, kind.scale)
        if value is None and is_decimal(number):
            raise self._tokens.bad(f"field {self._place} has too many digits for {type_text(kind)}")
        if value is None:
            raise self._refused(kind)
        return value

    def _text(self, kind: ValueType, token: Token) -> str:
        text = well_formed(self._tokens.text()) if token is Token.STRING else self._copy()
        self._charge(_CHARACTER_BYTES * len(text))
        return text

    def _binary(self, kind: ValueType, token: Token) -> bytes:
        if token is not Token.STRING:
            raise self._refused(kind)
        content = self._tokens.binary()
        self._charge(len(content))
        return content

    def _date(self, kind: ValueType, token: Token) -> int:
        return self._time_value(kind, token, date_of)

    def _timestamp(self, kind: ValueType, token: Token) -> int:
        if token is Token.INTEGER:
            seconds = self._integer(ValueType(Kind.LONG), token)
            return (seconds * 1_000_000 + 2**63) % 2**64 - 2**63  # Scala's Long wraps
        return self._time_value(kind, token, lambda text: timestamp_of(text, self._zones))

    def _local_timestamp(self, kind: ValueType, token: Token) -> int:
        return self._time_value(kind, token, local_timestamp_of)

    def _time_value(self, kind: ValueType, token: Token, parse: Callable[[str], int | None]) -> int:
        value = None
        if token is Token.STRING and self._tokens.text():
            value = parse(well_formed(self._tokens.text()))
        if value is None:
            raise self._refused(kind)
        return value

    # Other JSON as text.

    def _copy(self) -> str:
        """Returns the value as compact JSON text, in the form in which Jackson writes it."""
        tokens, pieces, depth, comma = self._tokens, [], 0, False
        token = tokens.token
        while token is not None:
            if token in (Token.END_OBJECT, Token.END_ARRAY):
                if not depth:
                    raise tokens.bad("a value is missing")
                depth -= 1
                pieces.append("}" if token is Token.END_OBJECT else "]")
                comma = True
            else:
                piece = self._piece(token)
                pieces.append(f",{piece}" if comma else piece)
                comma = token not in (Token.NAME, Token.START_OBJECT, Token.START_ARRAY)
                depth += token in (Token.START_OBJECT, Token.START_ARRAY)
            if not depth:
                break
            token = tokens.next()
        return "".join(pieces)

    def _piece(self, token: Token) -> str:
        match token:
            case Token.START_OBJECT:
                return "{"
            case Token.START_ARRAY:
                return "["
            case Token.NAME:
                return f"{json_text(self._tokens.name or '')}:"
            case Token.STRING:
                return json_text(self._tokens.text())
            case Token.INTEGER:
                return str(int(self._tokens.text()))
            case Token.FLOAT:
                return self._float_text()
        return self._tokens.text()  # true, false, null

    def _float_text(self) -> str:
        text = self._tokens.text()
        value = non_number(text)
        value = float(text) if value is None else value
        written = java_double(value)
        return written if written[-1].isdecimal() else f'"{written}"'


_RANGES = {
    Kind.BYTE: (-128, 255),
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.LONG: (-(2**63), 2**63 - 1),
}
_CONVERTERS: dict[Kind, Callable[[_Converter, ValueType, Token], JsonValue]] = {
    Kind.BOOLEAN: _Converter._boolean,
    Kind.BYTE: _Converter._integer,
    Kind.SHORT: _Converter._integer,
    Kind.INT: _Converter._integer,
    Kind.LONG: _Converter._integer,
    Kind.FLOAT: _Converter._float,
    Kind.DOUBLE: _Converter._float,
    Kind.DECIMAL: _Converter._decimal,
    Kind.STRING: _Converter._text,
    Kind.BINARY: _Converter._binary,
    Kind.DATE: _Converter._date,
    Kind.TIMESTAMP: _Converter._timestamp,
    Kind.TIMESTAMP_NTZ: _Converter._local_timestamp,
    Kind.STRUCT: _Converter._struct,
    Kind.ARRAY: _Converter._array,
    Kind.MAP: _Converter._map,
}
