"""Single values: numbers, decimals and text as Spark makes them from a token of JSON."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np

_INT_MAX = 2**31 - 1
_PLACES_MAX = 646_456_992  # a java.math.BigInteger holds no greater power of ten
_EXPONENT_DIGITS = 11  # a java.math.BigDecimal has no exponent with so many
_FLOAT_MAX = float(np.finfo(np.float32).max)
_FLOAT_TIE = (_FLOAT_MAX + 2.0**128) / 2  # as close to the greatest float as to infinity
_NON_NUMBERS = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+INF": math.inf,
    "+Infinity": math.inf,
    "-INF": -math.inf,
    "-Infinity": -math.inf,
}


def non_number(text: str) -> float | None:
    """Returns the value of a word like Infinity, None for other text."""
    return _NON_NUMBERS.get(text)


_SURROGATE = re.compile("[\ud800-\udfff]")


def joined(text: str) -> str:
    """Returns text whose surrogate pairs (from escapes) are whole characters."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def well_formed(text: str) -> str:
    """Returns text with "?" for each half of a surrogate pair, as Java encodes it in UTF-8."""
    return joined(text).encode("utf-8", "replace").decode()


_DECIMAL = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?)(\d+))?")


def decimal_of(text: str, precision: int, scale: int) -> int | None:
    """Returns a decimal number times 10 to the scale, rounded half up.

    None if text is no number for java.math.BigDecimal, or if it has too many digits.
    """
    match = _decimal_match(text)
    if match is None:
        return None
    fraction = match[3] or match[4] or ""
    exponent = _exponent(match[5], match[6])
    places = exponent - len(fraction)
    if not -_INT_MAX <= places <= _INT_MAX:
        return None
    digits = ((match[2] or "") + fraction).lstrip("0")
    if digits and places + scale < -_PLACES_MAX:
        return None
    unscaled = _shifted(digits, places + scale, precision)
    if unscaled >= 10**precision:
        return None
    return -unscaled if match[1] == "-" else unscaled


def is_decimal(text: str) -> bool:
    """Returns whether text is a number for java.math.BigDecimal, of however many digits."""
    return _decimal_match(text) is not None


def _decimal_match(text: str) -> re.Match[str] | None:
    return _DECIMAL.fullmatch(text if text.isascii() else _ascii_digits(text))


def _ascii_digits(text: str) -> str:
    """Returns text with the digits 0 to 9 for those of other scripts, which Java takes too."""
    return re.sub(r"\d", lambda digit: str(int(digit[0])), text)


def _exponent(sign: str | None, digits: str | None) -> int:
    """Returns an exponent. That of many digits is a huge one: ``int`` takes 4,300 at most."""
    value = int((digits or "").lstrip("0")[:_EXPONENT_DIGITS] or 0)
    return -value if sign == "-" else value


def _shifted(digits: str, places: int, precision: int) -> int:
    """Returns digits times 10 to ``places``, half up; any too large number for a too large one.

    ``digits``: any number of them, without zeros in front.
    """
    whole = len(digits) + places
    if not digits or whole < 0:
        return 0
    if whole > precision:
        too_large: int = 10**precision
        return too_large
    half_up = whole < len(digits) and digits[whole] >= "5"
    return int(digits[:whole].ljust(whole, "0") or 0) + half_up


def double_of(text: str) -> float:
    """Returns the 64-bit number next to a decimal one. Jackson has no negative zero of integers."""
    return 0.0 if text == "-0" else float(text)


def float32_of(text: str) -> float:
    """Returns the 32-bit number next to a decimal one."""
    double = double_of(text)
    with np.errstate(over="ignore"):
        single = np.float32(double)
        if not math.isfinite(double) or float(single) == double:
            return float(single)
        towards = np.float32(math.copysign(math.inf, double - float(single)))
        other = float(np.nextafter(single, towards))
    if not math.isfinite(single):  # 2**128 stands for infinity in the comparison
        return _from_middle(text, double, float(single), math.copysign(_FLOAT_MAX, double))
    if (float(single) + other) / 2 == double:
        return _from_middle(text, double, float(single), other)
    return float(single)


def _from_middle(text: str, middle: float, chosen: float, other: float) -> float:
    """Returns the neighbour of ``middle`` that is closer to the decimal number."""
    if abs(middle) > 2 * _FLOAT_MAX:
        return chosen
    exact, bound = Fraction(Decimal(text)), Fraction(middle)
    if exact == bound or (not math.isfinite(chosen) and abs(middle) != _FLOAT_TIE):
        return chosen
    return max(chosen, other) if exact > bound else min(chosen, other)


def java_double(value: float) -> str:
    """Returns a number as Java's Double.toString writes it."""
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, numbers, exponent = Decimal(repr(abs(value))).as_tuple()
    digits = "".join(map(str, numbers)).rstrip("0")
    if len(digits) == 1:  # Java writes two digits at least, and the second need not be 0
        digits = f"{abs(value):.1e}"[:3].replace(".", "").rstrip("0")
    point = len(numbers) + int(exponent)  # digits before the decimal point
    if 1e-3 <= abs(value) < 1e7:
        padded = digits.ljust(point, "0")
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


_ESCAPED = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def json_text(text: str) -> str:
    """Returns a string with quotation marks, as Jackson writes it."""
    return '"' + "".join(_ESCAPED.get(c) or _written(c) for c in text) + '"'


def _written(char: str) -> str:
    """Returns a character, escaped if it is a control or needs two of Java's characters."""
    code = ord(char)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"
    return f"\\u{code:04X}" if char < " " or 0xD800 <= code <= 0xDFFF else char
