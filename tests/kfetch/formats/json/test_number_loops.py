"""Numbers at the ends of their types, as the compiled loops read them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.json import reference
from kfetch.formats.json.times import Zones
from tests.kfetch.formats.vectors import decode, decoder

_RANGES = {"TINYINT": (-128, 255), "SMALLINT": (-(2**15), 2**15 - 1),
           "INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}  # fmt: skip
_NUMBERS = sorted(
    {
        sign * (number + by)
        for number in (0, *(2**n for n in range(7, 66)), *(10**n for n in range(1, 21)))
        for by in (-1, 0, 1)
        for sign in (1, -1)
    }
)
"""Powers of two and ten and their neighbours, beyond 64 bits too."""


def _decoded(kind: str, texts: list[str]) -> tuple[list[object], list[int]]:
    result = decode(decoder(f"n {kind}"), [f'{{"n":{text}}}'.encode() for text in texts])
    return result.values.field("n").to_pylist(), result.corrupt.tolist()


@pytest.mark.parametrize("kind", _RANGES)
def test_integers(kind: str) -> None:
    """An integer in the range is that integer. Others do not fit. A TINYINT up to 255 wraps."""
    least, greatest = _RANGES[kind]
    fits = [least <= number <= greatest for number in _NUMBERS]
    wrapped = [n - 256 if kind == "TINYINT" and n > 127 else n for n in _NUMBERS]
    values, corrupt = _decoded(kind, [*map(str, _NUMBERS)])
    assert [n if ok else None for n, ok in zip(wrapped, fits, strict=True)] == values
    assert [at for at, ok in enumerate(fits) if not ok] == corrupt


@pytest.mark.parametrize("scale", [0, 1, 17, 18])
@pytest.mark.parametrize("precision", [1, 9, 18, 19, 38])
def test_decimals(precision: int, scale: int) -> None:
    """A decimal with the type's digits is exact, of either sign. Others do not fit."""
    if scale > precision:
        return
    numbers = [n for n in _NUMBERS if abs(n) < 10**18]
    values, corrupt = _decoded(f"DECIMAL({precision},{scale})", [*map(str, numbers)])
    fits = [abs(n) * 10**scale < 10**precision for n in numbers]
    assert [Decimal(n) if ok else None for n, ok in zip(numbers, fits, strict=True)] == values
    assert [at for at, ok in enumerate(fits) if not ok] == corrupt


@pytest.mark.parametrize("digits", [k << shift for shift in (44, 45, 46) for k in (1, 2, 3, 5)])
def test_low_halves_of_decimals(digits: int) -> None:
    """A negative decimal whose low 64 bits are 0, or only the sign's bit, is exact."""
    values, corrupt = _decoded("DECIMAL(38,0)", [f"-{digits}e18", f"{digits}e18"])
    assert [Decimal(-digits * 10**18), Decimal(digits * 10**18)] == values
    assert not corrupt


def test_seconds_of_timestamps_wrap() -> None:
    """An integer counts seconds. Its microseconds wrap around as a Long of Scala."""
    numbers = [n for n in _NUMBERS if -(2**63) <= n < 2**63]
    documents = [f'{{"n":{n}}}'.encode() for n in numbers]
    result = decode(decoder("n TIMESTAMP"), [*documents])
    micros = result.values.field("n").cast("int64").to_pylist()
    assert [(n * 10**6 + 2**63) % 2**64 - 2**63 for n in numbers] == micros
    schema = parse_schema("n TIMESTAMP")
    assert micros == [(reference.decode(item, schema, Zones()).row or [])[0] for item in documents]


def test_floats_of_many_digits() -> None:
    """A DOUBLE is the nearest to an integer of any number of digits."""
    values, corrupt = _decoded("DOUBLE", [*map(str, _NUMBERS)])
    assert [*map(float, _NUMBERS)] == values
    assert not corrupt
