"""Reads a schema from text: Spark's DDL, or the JSON of a StructType. Writes DDL. No JVM is needed.

The grammar is that of ``StructType.fromDDL``: ``id BIGINT, tags ARRAY<STRING>, n STRUCT<a: INT>``.
``STRUCT<id: BIGINT, …>`` is the same schema. Raises OptionError for text that is no schema, and
NotBuilt for types of Spark that kfetch can't decode.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import Any

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.columns.types import DEPTH_MAX, Kind, ValueType, list_of, map_of, struct_of

_SCALARS = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "byte": Kind.BYTE,
    "smallint": Kind.SHORT,
    "short": Kind.SHORT,
    "int": Kind.INT,
    "integer": Kind.INT,
    "bigint": Kind.LONG,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "real": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ltz": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
}
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_NOT_BUILT = ("char", "character", "varchar", "void", "interval", "variant", "time", "geometry",
              "geography", "udt")  # fmt: skip
_DECIMAL_DEFAULT = 10, 0
_PRECISION_MAX = 38  # DecimalType.MAX_PRECISION

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/            # spaces and comments, which have no group
    |(`(?:[^`]|``)+`)                     # 1: a quoted name
    |('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")  # 2: the text of a comment
    |(\w+)                                # 3: a word or a number
    |([<>(),:])                           # 4: punctuation""",
    re.VERBOSE | re.DOTALL,
)


def parse_schema(text: str, *, option: str = "valueSchema") -> ValueType:
    """Returns the struct type that ``text`` describes.

    ``option``: the option that has the text, for error messages.
    """
    if text.lstrip().startswith("{"):
        return _from_json(text, option)
    check_is_text(text, option)
    return _Reader(text, option).schema()


def _error(option: str, what: str, action: str) -> OptionError:
    return OptionError(f"{option} is no schema: {what}", action=action, option=option)


_EXAMPLE = 'write it like "id BIGINT, name STRING, tags ARRAY<STRING>, m MAP<STRING, INT>"'


class _Reader:
    """Reads a schema from tokens, from left to right."""

    def __init__(self, text: str, option: str) -> None:
        self._option = option
        self._text = text
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0

    def _split(self, text: str) -> list[tuple[str, int]]:
        tokens, at = [], 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._wrong(f"{text[at : at + 10]!r} at position {at} is unexpected")
            if match.lastindex:
                tokens.append((match[match.lastindex], at))
            at = match.end()
        return tokens

    def _wrong(self, what: str) -> OptionError:
        return _error(self._option, what, _EXAMPLE)

    @property
    def _next(self) -> str:
        """The next token in lower case; empty at the end."""
        return self._tokens[self._at][0].lower() if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        if not self._next:
            raise self._wrong("the text ends too early")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _accept(self, token: str) -> bool:
        if self._next != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            found = self._tokens[self._at][0] if self._next else "the end"
            where = self._tokens[self._at][1] if self._next else len(self._text)
            raise self._wrong(f"{token} is missing before {found} at position {where}")

    def schema(self) -> ValueType:
        """Returns the whole schema."""
        result = self._type() if self._is_struct_type() else self._fields(end="")
        if self._next:
            raise self._wrong(f"{self._take()} is unexpected")
        return result

    def _is_struct_type(self) -> bool:
        return (
            self._next == "struct"
            and self._tokens[self._at + 1 : self._at + 2] != []
            and (self._tokens[self._at + 1][0] == "<")
        )

    def _fields(self, end: str) -> ValueType:
        fields: list[tuple[str, ValueType]] = []
        while self._next != end:
            name = self._name()
            self._accept(":")
            if self._next in ("", ",", ">"):
                raise _error(self._option, f"{name} has no type", f"write {name} STRING, say")
            fields.append((name, self._type()))
            self._skip_attributes()
            if not self._accept(","):
                break
            if self._next == end:
                raise self._wrong("a field is missing behind the last comma")
        return _struct(fields, self._option)

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise self._wrong(f"{token} is no field's name")
        return token

    def _skip_attributes(self) -> None:
        """Skips NOT NULL and COMMENT: like from_json, kfetch lets every field be null."""
        if self._accept("not"):
            self._expect("null")
        if self._accept("comment"):
            self._take()

    def _type(self) -> ValueType:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"types lie inside each other more than {DEPTH_MAX} deep")
        result = self._type_of(self._take())
        self._depth -= 1
        return result

    def _type_of(self, word: str) -> ValueType:
        name = word.lower()
        if name in _SCALARS:
            return ValueType(_SCALARS[name])
        if name in _DECIMALS:
            return self._decimal()
        if name in _NESTED:
            return self._nested(name)
        raise _unknown(word, self._option)

    def _nested(self, name: str) -> ValueType:
        self._expect("<")
        if name == "struct":
            result = self._fields(end=">")
        elif name == "array":
            result = list_of(self._type())
        else:
            key = self._type()
            self._expect(",")
            result = _map(key, self._type(), self._option)
        self._expect(">")
        return result

    def _decimal(self) -> ValueType:
        precision, scale = _DECIMAL_DEFAULT
        if self._accept("("):
            precision, scale = self._number(), 0
            if self._accept(","):
                scale = self._number()
            self._expect(")")
        return _decimal(precision, scale, self._option)

    def _number(self) -> int:
        token = self._take()
        if not token.isdecimal():
            raise self._wrong(f"{token} is no number")
        return _number(token)


def _number(digits: str) -> int:
    """Returns a number. One of many digits is a huge one: ``int`` takes 4,300 at most."""
    return int(digits.lstrip("0")[:9] or 0)


def _unknown(name: str, option: str) -> Exception:
    if name.lower() in _NOT_BUILT:
        return NotBuilt(
            f"the type {name} in {option} is not built yet",
            action="use STRING for this field and convert it in Spark",
            option=option,
        )
    known = [*_SCALARS, *_DECIMALS, *_NESTED]
    near = difflib.get_close_matches(name.lower(), known, n=1)
    action = f"did you mean {near[0].upper()}?" if near else _EXAMPLE
    return _error(option, f"{name} is no type of Spark", action)


def _struct(fields: list[tuple[str, ValueType]], option: str) -> ValueType:
    names = [name for name, _ in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _error(option, f"field {twice[0]} appears twice", "give each field its own name")
    return struct_of(fields)


def _map(key: ValueType, value: ValueType, option: str) -> ValueType:
    if key.kind is not Kind.STRING:
        raise _error(option, "the key of a MAP must be STRING", "write MAP<STRING, …>")
    return map_of(value)


def _decimal(precision: int, scale: int, option: str) -> ValueType:
    if not (1 <= precision <= _PRECISION_MAX and 0 <= scale <= precision):
        what = f"DECIMAL({precision},{scale}) is out of range"
        action = f"use a precision of 1 to {_PRECISION_MAX} and a scale up to the precision"
        raise _error(option, what, action)
    return ValueType(Kind.DECIMAL, precision, scale)


def _from_json(text: str, option: str) -> ValueType:
    try:
        schema = _json_struct(json.loads(text), option)
        if _depth(schema) > DEPTH_MAX:
            what = f"types lie inside each other more than {DEPTH_MAX} deep"
            raise _error(option, what, "flatten it, or take an inner field as STRING")
        return schema
    except OptionError:  # which is a ValueError
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        action = "use the text of df.schema.json()"
        raise _error(option, f"the JSON is no StructType ({cause!r})", action) from cause


def _depth(kind: ValueType) -> int:
    return max((1 + _depth(child) for child in kind.children), default=0)


def _json_struct(tree: Any, option: str) -> ValueType:
    if tree["type"] != "struct":
        raise _error(option, f"its type is {tree['type']}", "describe a struct")
    fields = [(str(field["name"]), _json_type(field["type"], option)) for field in tree["fields"]]
    return _struct(fields, option)


def _json_type(tree: Any, option: str) -> ValueType:
    if isinstance(tree, str):
        return _json_scalar(tree, option)
    readers: dict[str, Callable[[Any, str], ValueType]] = {
        "struct": _json_struct,
        "array": lambda t, o: list_of(_json_type(t["elementType"], o)),
        "map": lambda t, o: _map(_json_type(t["keyType"], o), _json_type(t["valueType"], o), o),
    }
    if tree["type"] not in readers:
        raise _unknown(tree["type"], option)
    return readers[tree["type"]](tree, option)


def _json_scalar(name: str, option: str) -> ValueType:
    match = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", name)
    if match:
        return _decimal(_number(match[1]), _number(match[2]), option)
    if name == "decimal":
        return ValueType(Kind.DECIMAL, *_DECIMAL_DEFAULT)
    if name not in _SCALARS:
        raise _unknown(re.split(r"[( ]", name)[0], option)
    return ValueType(_SCALARS[name])


_NAMES = {Kind.BYTE: "TINYINT", Kind.SHORT: "SMALLINT", Kind.LONG: "BIGINT"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {"not", "null", "comment"}
"""The words that may follow a field's type."""


def fields_text(struct: ValueType) -> str:
    """Returns the fields of a struct, such as ``id BIGINT, tags ARRAY<STRING>``."""
    pairs = zip(struct.names, struct.children, strict=True)
    return ", ".join(f"{_name(name)} {type_text(kind)}" for name, kind in pairs)


def type_text(kind: ValueType) -> str:
    """Returns a type, such as ``STRUCT<id: BIGINT>``."""
    match kind.kind:
        case Kind.STRUCT:
            pairs = zip(kind.names, kind.children, strict=True)
            return f"STRUCT<{', '.join(f'{_name(n)}: {type_text(c)}' for n, c in pairs)}>"
        case Kind.ARRAY:
            return f"ARRAY<{type_text(kind.children[0])}>"
        case Kind.MAP:
            return f"MAP<STRING, {type_text(kind.children[1])}>"
        case Kind.DECIMAL:
            return f"DECIMAL({kind.precision},{kind.scale})"
    return kind_text(kind.kind)


def kind_text(kind: Kind) -> str:
    """Returns the name of a kind of types without the types inside, such as ``BIGINT``."""
    return _NAMES.get(kind, kind.name)


def _name(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


_PATH = re.compile(r"(~|\.{0,2}/|file:)\S*|\S+\.(avsc|avro|json|ddl|sql|txt|desc|proto)")


def check_is_text(text: str, option: str) -> None:
    """Raises OptionError for the path of a file in place of its text."""
    if _PATH.fullmatch(text.strip()):
        raise OptionError(
            f"{option} looks like the path of a file ({text.strip()}), and it must be the text "
            "of the schema",
            action=f"read the file in your program; in a job file, write {option}: ${{file:PATH}}",
            option=option,
        )
