"""Random schemas, and random documents for them: most are good, many are odd, some are damaged."""

from __future__ import annotations

import json
from random import Random

from kfetch.formats.columns.types import Kind, ValueType, list_of, map_of, struct_of

__all__ = ["ddl", "document", "schema"]

_NAMES = [
    "a",
    "b",
    "c",
    "id",
    "x",
    "y",
    "name",
    "größe",
    "a_name_of_more_than_16_bytes",
    "value",
    "k2",
]
_SCALARS = [kind for kind in Kind if Kind.INTERVAL < kind < Kind.STRUCT]  # no INTERVAL in JSON
_WORDS = ["", "x", "hello", "Zürich", "naïve 😀", "a longer text of more than sixteen bytes",
          "line\nbreak", 'a "quoted" word', "back\\slash", "tab\there", "nul\x00", "\x7f", "ends\\"]  # fmt: skip
_NUMBERS = ["0", "-0", "1", "7", "-12", "127", "200", "255", "256", "32768", "99999", "2147483648",
            "1234567890123", "-9223372036854775808", "9223372036854775807", "9223372036854775808",
            "0.5", "-1.25", "3.14159", "1e3", "1.5E-3", "2.50", "0.1", "123456789.987654321",
            "0.30000000000000004", "1e300", "1e-300", "12345678901234567890", "1e400", "-0.0",
            "99999999.995", "0.005", "1e22", "1e23", "5e-324", "3.4e38", "16777217.0"]  # fmt: skip
_ODD = ["null", "true", "false", '""', '"x"', "[]", "{}", "[1]", '{"a":1}', "NaN", "-Infinity", "tru",
        "'single'", "01", "1.", "+1", "-", '"\\ud83d"', '"\\q"', "[1,", '{"a"', '"a\tb"', "nul",
        '["b",{"a":[null]}]', '"1"', '"NaN"', "1,", "", "1 2", '[1,"x",{"a":2}]', '{"a":{"b":tru}}',
        "/**/1", '"2024-01-01"', '{"x":[{"a":1},2]}']  # fmt: skip
_DATES = ["2024-02-29", "1999-12-31", "0001-01-01", "2023-02-29", "2024-1-5", "2024", "12345-06-07",
          "2024-01-01T00:00:00", "-0001-01-01", "x", "123", "1582-10-10", "2024-13-01"]  # fmt: skip
_TIMES = ["2024-02-29T12:34:56Z", "2024-07-01 01:02:03", "2024-07-01T01:02:03.123456", "1969-12-31",
          "2024-07-01T01:02:03.9999999Z", "2024-07-01T01:02:03+02:00", "2024-07-01T01:02:03-09:30",
          "2024-07-01T01:02:03.000+0000", "2024-07-01 01:02:03-03", "2024-07-01T01:02:03+1",
          "2024-03-10T02:30:00", "2024-11-03T01:30:00", "2024-07-01T25:00:00", "2024-07-01T01:02",
          "2024-07-01T01:02:03 PST", "1850-01-01T00:00:00", "2150-01-01T00:00:00", "x",
          "2024-07-01T01:02:03 Europe/Paris", "2024-07-01T01:02:03.Z", "2024-1-1T1:1:1"]  # fmt: skip
_BASE64 = [
    "",
    "AQID",
    "AQI=",
    "AQ==",
    "AQ",
    "////",
    "AQID BAUG",
    "A*==",
    "AQIDBAUGBwgJCgsMDQ4PEBE=",
]


def schema(rng: Random, depth: int = 3) -> ValueType:
    """Returns a struct with up to six fields."""
    names = rng.sample(_NAMES, rng.randint(1, 6))
    return struct_of([(name, _kind(rng, depth)) for name in names])


def _kind(rng: Random, depth: int) -> ValueType:
    if depth == 0 or rng.random() < 0.65:
        kind = rng.choice(_SCALARS)
        if kind is not Kind.DECIMAL:
            return ValueType(kind)
        precision = rng.choice([1, 5, 10, 18, 19, 38])
        return ValueType(kind, precision, rng.randint(0, precision))
    return rng.choice(
        [
            lambda: schema(rng, depth - 1),
            lambda: list_of(_kind(rng, depth - 1)),
            lambda: map_of(_kind(rng, depth - 1)),
        ]
    )()


def ddl(kind: ValueType) -> str:
    """Returns a type as Spark's DDL."""
    match kind.kind:
        case Kind.STRUCT:
            return f"STRUCT<{', '.join(_fields(kind))}>"
        case Kind.ARRAY:
            return f"ARRAY<{ddl(kind.children[0])}>"
        case Kind.MAP:
            return f"MAP<STRING, {ddl(kind.children[1])}>"
        case Kind.DECIMAL:
            return f"DECIMAL({kind.precision},{kind.scale})"
    return {"BYTE": "TINYINT", "SHORT": "SMALLINT", "LONG": "BIGINT"}.get(
        kind.kind.name, kind.kind.name
    )


def _fields(kind: ValueType) -> list[str]:
    pairs = zip(kind.names, kind.children, strict=True)
    return [f"`{name}`: {ddl(child)}" for name, child in pairs]


def document(rng: Random, kind: ValueType, oddity: float = 0.03) -> bytes:
    """Returns one document. ``oddity``: how likely each value is of another form."""
    text = _object(rng, kind, oddity)
    if rng.random() < oddity:
        text = rng.choice(
            ["", " ", "null", "[]", f"[{text}]", f"{text} tail", f" {text}", "x", "\ufeff"]
        )
    data = text.encode()
    while rng.random() < oddity:
        data = _damaged(rng, data)
    return data


def _damaged(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = rng.choice([b"", b"", b'"', b",", b"}", b"]", b"{", b"[", b":", b"\\", b" ", b"x", b"1", b"\xff",
                        b"\x00", b"'", b"\xc3", b"null", b"\n"])  # fmt: skip
    return rng.choice(
        [data[:at], data[:at] + piece + data[at:], data[:at] + piece + data[at + 1 :]]
    )


def _space(rng: Random) -> str:
    return rng.choice(["", "", "", "", "", "", " ", "  ", "\n", "\t", "\r\n "])


def _object(rng: Random, kind: ValueType, oddity: float) -> str:
    fields = list(zip(kind.names, kind.children, strict=True))
    if rng.random() < 0.1:
        rng.shuffle(fields)
    if rng.random() < 0.15:
        fields = fields[: rng.randrange(len(fields) + 1)]
    if rng.random() < oddity:
        fields.append(rng.choice(fields or [("x", kind.children[0])]))
    members = [
        f"{_name(rng, name, oddity)}:{_space(rng)}{_value(rng, child, oddity)}"
        for name, child in fields
    ]
    if rng.random() < 0.1:
        extra = rng.choice([*_NUMBERS, "null", '{"q":[1,{"r":"s"}]}', '"text"', *_ODD[:9]])
        members.insert(rng.randrange(len(members) + 1), f'"unknown"{_space(rng)}:{extra}')
    return _joined(rng, "{", members, "}")


def _joined(rng: Random, start: str, items: list[str], end: str) -> str:
    spaced = [f"{_space(rng)}{item}{_space(rng)}" for item in items]
    return start + ",".join(spaced) + end


def _name(rng: Random, name: str, oddity: float) -> str:
    if rng.random() < oddity:
        return rng.choice(
            [f"'{name}'", name, f'"{name.upper()}"', f'"\\u{ord(name[0]):04x}{name[1:]}"']
        )
    return json.dumps(name, ensure_ascii=rng.random() < 0.1)


def _value(rng: Random, kind: ValueType, oddity: float) -> str:
    chance = rng.random()
    if chance < oddity:
        return rng.choice(_ODD + _NUMBERS)
    if chance < oddity + 0.05:
        return "null"
    match kind.kind:
        case Kind.STRUCT:
            return _object(rng, kind, oddity)
        case Kind.ARRAY:
            items = [
                _value(rng, kind.children[0], oddity) for _ in range(rng.choice([0, 1, 2, 3, 9]))
            ]
            return _joined(rng, "[", items, "]")
        case Kind.MAP:
            names = [_string(rng, rng.choice(_WORDS)) for _ in range(rng.choice([0, 1, 2, 4]))]
            pairs = [f"{name}:{_value(rng, kind.children[1], oddity)}" for name in names]
            return _joined(rng, "{", pairs, "}")
    return _scalar(rng, kind.kind)


def _string(rng: Random, text: str) -> str:
    return json.dumps(text, ensure_ascii=rng.random() < 0.3)


def _scalar(rng: Random, kind: Kind) -> str:
    if kind is Kind.BOOLEAN:
        return rng.choice(["true", "false"])
    if kind in (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG):
        bits = {Kind.BYTE: 7, Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}[kind]
        return str(rng.randrange(-(1 << rng.randint(1, bits)), 1 << rng.randint(1, bits)))
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        exotic = repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30))
        return rng.choice([str(rng.randrange(10**6)), repr(round(rng.random() * 1000, 3)), exotic])
    if kind is Kind.DECIMAL:
        number = (
            f"{rng.randrange(10 ** rng.randint(1, 20))}.{rng.randrange(10 ** rng.randint(1, 12))}"
        )
        return rng.choice([number, f'"{number}"', str(rng.randrange(10**9)), rng.choice(_NUMBERS)])
    pool = {
        Kind.DATE: _DATES,
        Kind.TIMESTAMP: _TIMES,
        Kind.TIMESTAMP_NTZ: _TIMES,
        Kind.BINARY: _BASE64,
    }
    if kind is Kind.TIMESTAMP and rng.random() < 0.1:
        return str(rng.randrange(-(10**10), 10**10))
    if kind is Kind.STRING and rng.random() < 0.1:
        return rng.choice([*_NUMBERS, "true", '{"a" : [1, 2.5, "x\\n"] }', "[null]"])
    return _string(rng, rng.choice(pool.get(kind, _WORDS)))
