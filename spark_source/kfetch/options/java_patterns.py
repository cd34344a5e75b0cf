"""Regular expressions of Java, which Spark's connector reads, as Python writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

_CLASSES = {
    "Lower|Ll|IsLowercase": "a-z",
    "Upper|Lu|IsUppercase": "A-Z",
    "Alpha|L|IsL|IsAlphabetic": "a-zA-Z",
    "Digit|N|Nd|IsDigit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct|P|IsPunctuation": r"._\\-",
}
"""The names of Java's classes, and the characters that a topic's name may have of them."""
_CHARACTERS = r"((?![\^:-])(?:\\.|[^\\\[\]&])+(?<![^\\]-))"
r"""A set's characters, such as a-z\]. The set is not negated, and - is no character at its ends."""

_QUOTED = r"\\Q((?s:.*?))(?:\\E|\Z)"
_FORMS = (
    (r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", r"(?P<\1>"),
    (r"\\k<([a-zA-Z][a-zA-Z0-9]*)>", r"(?P=\1)"),
    *((rf"\\p\{{(?:{names})\}}", f"[{chars}]") for names, chars in _CLASSES.items()),
    *((rf"\\P\{{(?:{names})\}}", f"[^{chars}]") for names, chars in _CLASSES.items()),
    (r"\\h", r"[ \\t]"),
    (r"\\z", r"\\Z"),
    (rf"\[{_CHARACTERS}?\[{_CHARACTERS}\](?!-)", r"[\1\2"),  # the outer set's end follows
    (rf"\[{_CHARACTERS}&&\[\^{_CHARACTERS}\]\]", r"(?:(?![\2])[\1])"),
    (rf"\[{_CHARACTERS}&&(?:\[{_CHARACTERS}\]|{_CHARACTERS})\]", r"(?:(?=[\2\3])[\1])"),
)
"""A form of Java alone, and the template of Python's form. Both choose the same topics."""
_ROUNDS = 10
"""Each round opens one set in a set. A pattern with more of them gets no advice."""


def in_python(pattern: str) -> str:
    """Returns Python's form of a pattern; empty if it is not known or the pattern itself."""
    python = _replaced(_QUOTED, lambda match: re.escape(match[1]), pattern)
    for _ in range(_ROUNDS):
        for form, template in _FORMS:
            python = _replaced(form, partial(re.Match.expand, template=template), python)
    in_a_set = any("(?" in chars for chars in _bracketed(python))
    return "" if python == pattern or problem(python) or in_a_set else python


def _replaced(form: str, python: Callable[[re.Match[str]], str], pattern: str) -> str:
    """Returns a pattern with each form replaced, unless a backslash escapes it."""
    return re.sub(rf"{form}|(?P<escaped>\\.)", lambda m: m["escaped"] or python(m), pattern)


def problem(pattern: str) -> str:
    """Returns why Python's ``re`` can't read a pattern as Java does; empty if it can."""
    if any("[" in chars or "&&" in chars for chars in _bracketed(pattern)):
        return (
            "but kfetch reads it with Python's re, which has no sets of sets: no [ and no && "
            "inside brackets"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as cause:
        return f"which is no regular expression of Python's re: {cause}"
    return ""


def _bracketed(pattern: str) -> Iterator[str]:
    """Returns what stands between each pair of brackets, without escaped characters.

    Java has sets of sets there. Python takes the same text for plain characters, so the pattern
    would match other topics.
    """
    for match in re.finditer(r"\\.|\[\^?(\]?(?:\\.|[^\\\]])*)", pattern, re.DOTALL):
        yield re.sub(r"\\.", "", match[1] or "", flags=re.DOTALL)
