"""Converts one option's text to a number, a word, a size or a time.

Each function raises ValueError for an invalid text. Its message completes "it must be …".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def boolean(text: str) -> bool:
    """Returns the value of true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def whole(lowest: int, highest: int, expected: str) -> Callable[[str], int]:
    """Returns a converter of whole numbers within bounds. ``expected``: its error's sentence."""

    def convert(text: str) -> int:
        # As Java does; int() also reads 1_000 and digits of other scripts.
        if not re.fullmatch("[+-]?[0-9]{1,19}", text) or not lowest <= int(text) <= highest:
            raise ValueError(expected)
        return int(text)

    return convert


INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

positive = whole(1, LONG_MAX, "a whole number above 0")
count = whole(0, INT_MAX, f"a whole number from 0 to {INT_MAX}")
byte_count = whole(0, INT_MAX, f"a number of bytes from 0 to {INT_MAX}")
milliseconds = whole(0, INT_MAX, f"a number of milliseconds from 0 to {INT_MAX}")
_any_milliseconds = whole(0, LONG_MAX, f"a number of milliseconds from 0 to {LONG_MAX}")


def either(names: Sequence[str]) -> str:
    """Returns names as a sentence lists them: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_FEW = 3


def one_of(*words: str) -> Callable[[str], str]:
    """Returns a converter of words, in any case. Its value is written as here."""
    known = {word.lower(): word for word in words}
    expected = either(words) if len(words) <= _FEW else f"one of {', '.join(words)}"

    def convert(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(expected)
        return known[text.lower()]

    return convert


def second_of(first: str, second: str) -> Callable[[str], bool]:
    """Returns a converter of two words. Its value says whether the text is the second one."""
    word = one_of(first, second)
    return lambda text: word(text) == second


def memory(text: str) -> int:
    """Returns the bytes of a size such as 256m."""
    match = re.fullmatch(r"(\d+)\s*([kmgKMG]?)(?:i?[bB])?", text)
    if match is None:
        raise ValueError("a size such as 256m, 1g, or a number of bytes")
    size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]
    if not 1 << 20 <= size < 1 << 42:
        raise ValueError("at least 1m")
    return size


def seconds(text: str) -> float:
    """Returns the seconds of a number of milliseconds, at most 24 days: no socket waits longer."""
    return min(_any_milliseconds(text), INT_MAX) / 1000


_PAUSE_MIN_S = 0.01
"""A pause of 0 never doubles to more. It would turn each retry into a hot loop."""


def pause(text: str) -> float:
    """Returns the seconds of a pause in milliseconds, at least 10 ms."""
    return max(_PAUSE_MIN_S, seconds(text))


def duration(text: str) -> float:
    """Returns the seconds of a duration such as 2m. A number without a unit is seconds."""
    return _duration(text, "s", "a duration such as 120s, 2m, or a number of seconds")


def delay(text: str) -> float:
    """Returns the seconds of a duration in Spark's syntax. A number without a unit is in ms."""
    return _duration(text, "ms", "a duration such as 15m, 30s, or a number of milliseconds")


_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def _duration(text: str, default_unit: str, expected: str) -> float:
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.lower())
    unit = match and (match[2] or default_unit)
    if match is None or unit not in _UNITS_S:
        raise ValueError(expected)
    return float(int(match[1]) * _UNITS_S[unit])
