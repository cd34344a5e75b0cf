"""Numbers of JSON for the compiled loops: integers, floats and decimals, all exact.

Each function returns the position behind the number, or a refusal: MISMATCH for a value that can't
be of the type, UNSURE for text that ``reference`` must decide about.

Digits are summed up as unsigned numbers, which wrap around: LLVM assumes that signed ones never do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.formats.columns.intrinsics import (
    called,
    float_from_bits,
    float_to_bits,
    high_product,
    inlined,
    leading_zeros,
)
from kfetch.formats.json.loop_tables import FIVES_FROM, FIVES_TO, POWERS_OF_TEN

MISMATCH, UNSURE = -1, -2
_MINUS, _POINT, _ZERO, _PLUS, _E = ord("-"), ord("."), ord("0"), ord("+"), ord("e")

_TEN = np.uint64(10)
_LONG_END = np.uint64(1 << 63)  # the first number beyond an int64


@inlined
def is_digit(byte: Any) -> Any:
    """Returns whether a byte is a digit."""
    return np.uint8(byte - np.uint8(_ZERO)) < np.uint8(10)


@inlined
def _with_digit(value: Any, byte: Any) -> Any:
    return value * _TEN + np.uint64(byte - np.uint8(_ZERO))


@inlined
def integer(data: Any, at: int) -> Any:
    """Returns an integer of 64 bits and the position behind it, or a refusal."""
    negative = data[at] == _MINUS
    at += negative
    value = np.uint64(0)
    start = at
    while is_digit(data[at]):
        value = _with_digit(value, data[at])
        at += 1
        if at - start > 19:  # 19 digits are below 2**64
            return 0, UNSURE
    digits = at - start
    byte = data[at]
    if digits == 0:
        return 0, UNSURE if negative else MISMATCH
    if digits > 1 and data[start] == _ZERO:
        return 0, UNSURE
    if byte == _POINT or byte | 32 == _E:
        return 0, MISMATCH
    if negative:
        return np.int64(~value + np.uint64(1)), at if value <= _LONG_END else MISMATCH
    return np.int64(value), at if value < _LONG_END else MISMATCH


@called
def number_parts(data: Any, at: int) -> Any:  # noqa: C901
    """Reads a number of the JSON grammar.

    Returns six values: its significant digits as a number, which counts as unsigned; how many they
    are; the power of ten; whether the sign is minus; whether it is an integer; the position behind
    it, or a refusal.
    """
    negative = data[at] == _MINUS
    at += negative
    value = np.uint64(0)
    start, digits, power = at, 0, 0
    while is_digit(data[at]):
        value = _with_digit(value, data[at])
        digits += digits > 0 or data[at] != _ZERO
        at += 1
        if at - start > 19:
            return 0, 0, 0, False, False, UNSURE
    if at == start:
        return 0, 0, 0, False, False, UNSURE if negative else MISMATCH
    if at > start + 1 and data[start] == _ZERO:
        return 0, 0, 0, False, False, UNSURE
    is_integer = True
    if data[at] == _POINT:
        is_integer = False
        at += 1
        start = at
        while is_digit(data[at]):
            value = _with_digit(value, data[at])
            digits += digits > 0 or data[at] != _ZERO
            at += 1
            if digits > 19 or at - start > 30:
                return 0, 0, 0, False, False, UNSURE
        power = start - at
        if power == 0:
            return 0, 0, 0, False, False, UNSURE
    if data[at] | 32 == _E:
        is_integer = False
        at += 1
        minus = data[at] == _MINUS
        at += minus or data[at] == _PLUS
        exponent: Any = 0
        start = at
        while is_digit(data[at]):
            exponent = exponent * 10 + (np.int64(data[at]) - _ZERO)
            at += 1
            if at - start > 4:
                return 0, 0, 0, False, False, UNSURE
        if at == start:
            return 0, 0, 0, False, False, UNSURE
        power += -exponent if minus else exponent
    return np.int64(value), digits, power, negative, is_integer, at


@inlined
def double_bits(value: int, digits: int, power: int, powers: Any) -> Any:
    """Returns the bits of the float64 next to ``value`` times ten to ``power``, and whether.

    ``value`` counts as unsigned. Subnormal numbers are left to ``reference``.
    """
    if value == 0:
        return 0, True
    if digits <= 15 and -POWERS_OF_TEN < power < POWERS_OF_TEN:  # both are exact: Clinger's way
        scale = float_from_bits(powers[power if power > 0 else -power])
        exact = np.float64(value)
        return float_to_bits(exact * scale if power > 0 else exact / scale), True
    return _from_fives(value, power, powers)


@called
def _from_fives(value: int, power: int, powers: Any) -> Any:
    """Returns the same by Lemire's algorithm (Number Parsing at a Gigabyte per Second, 2021)."""
    if power < FIVES_FROM or power > FIVES_TO:
        return 0, False
    zeros = leading_zeros(value)
    digits = np.uint64(value) << np.uint64(zeros)
    at = POWERS_OF_TEN + 2 * (power - FIVES_FROM)
    high_five, low_five = np.uint64(powers[at]), np.uint64(powers[at + 1])
    low, high = digits * high_five, high_product(digits, high_five)
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = high_product(digits, low_five)
        low += more
        if low < more:
            high += np.uint64(1)
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0:
        return 0, False
    tie = low <= np.uint64(1) and -4 <= power <= 23 and mantissa & np.uint64(3) == np.uint64(1)
    if tie and mantissa << shift == high:
        mantissa &= ~np.uint64(1)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 0x7FF:
        return 0x7FF << 52, True
    return np.int64(mantissa & np.uint64((1 << 52) - 1)) | (exponent << 52), True
