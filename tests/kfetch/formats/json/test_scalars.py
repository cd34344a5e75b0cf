"""Decimals from text: those of Java's BigDecimal, which Spark rounds to the type."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.json import reference
from kfetch.formats.json.scalars import decimal_of
from kfetch.formats.json.times import Zones

_MANY = 4400  # Python converts no more than 4,300 digits
_EXACT = Context(prec=2000, rounding=ROUND_HALF_UP)


def _decoded(document: str, schema: str) -> reference.ReferenceRow:
    return reference.decode(document.encode(), parse_schema(schema), Zones())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * _MANY, None),
        ("0" * _MANY + "7", 7_00),
        ("0." + "1" * _MANY, 11),
        ("0.00" + "9" * _MANY, 1),
        ("0.00" + "4" * _MANY, 0),
        ("-0.995" + "0" * _MANY, -100),
        ("1" * _MANY + f"e-{_MANY}", 11),
        ("1" * _MANY + f"e-{_MANY + 1}", 1),
        ("5" * _MANY + f"e-{_MANY + 2}", 1),
        ("5" * _MANY + f"e-{_MANY + 3}", 0),
        ("1e" + "1" * _MANY, None),
        ("1e-" + "1" * _MANY, None),
        ("1e-" + "0" * _MANY + "1", 10),
        ("0e" + "0" * _MANY, 0),
        ("." * _MANY, None),
        ("\u0661\u0660.\u0665", 10_50),
    ],
)
def test_decimals_of_many_digits(text: str, value: int | None) -> None:
    """A string may have any number of digits. It is rounded, or it does not fit the type."""
    assert value == decimal_of(text, 38, 2)
    decoded = _decoded(f'{{"n":"{text}","m":1}}', "n DECIMAL(38,2), m INT")
    assert [value, 1] == decoded.row
    assert (value is None) == (decoded.problem is not None)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.data())
def test_decimals_are_rounded_half_up(number: Decimal, precision: int, data: st.DataObject) -> None:
    """A number that has the type's digits after rounding is that number. Others do not fit."""
    scale = data.draw(st.integers(0, precision))
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > 900:
        return
    unscaled = int(_EXACT.to_integral_value(_EXACT.scaleb(number, scale)))
    expected = unscaled if abs(unscaled) < 10**precision else None
    assert expected == decimal_of(str(number), precision, scale)


@pytest.mark.parametrize("number", ["9" * _MANY, "0." + "1" * _MANY, "1e" + "1" * _MANY])
@pytest.mark.parametrize("kind", ["STRING", "DECIMAL(38,0)", "BIGINT", "DOUBLE", "TIMESTAMP"])
def test_numbers_of_many_digits_do_not_fit(number: str, kind: str) -> None:
    """Spark refuses numbers outside of strings that have more than 1,000 digits."""
    assert _decoded(f'{{"n":{number}}}', f"n {kind}").problem is not None


@pytest.mark.parametrize("text", ["9" * _MANY, f"{'1' * _MANY}-01-01", f"1970-01-{'0' * _MANY}1"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_of_many_digits_do_not_fit(text: str, kind: str) -> None:
    """No part of a date or a time has that many digits."""
    assert _decoded(f'{{"n":"{text}"}}', f"n {kind}").problem is not None
