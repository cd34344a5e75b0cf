"""Checks fields in Spark's DDL, ``id BIGINT, tags ARRAY<STRING>``, without Spark.

It reports only what every Spark refuses: an unknown type, or a name without a type. At the first
form that it does not know, it stops, and Spark decides later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kfetch_jobs.config.yamlfile import suggestion

__all__ = ["TYPES", "mistake"]

TYPES = frozenset(  # a list would have a word a line
    """ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT GEOGRAPHY
    GEOMETRY INT INTEGER INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP
    TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT VARCHAR VARIANT VOID""".split()  # noqa: SIM905
)
"""The first words of types in Spark 4.2. A test asks Spark for each of them."""

_TOKEN = re.compile(r"--|/\*|\w+|`(?:[^`]|``)+`|'[^'\\]*'|\"[^\"\\]*\"|\S")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\w+|`.+`", re.DOTALL)
_FOREIGN = frozenset(("--", "/*", "`", "'", '"', "<"))
"""Signs that change the meaning of everything after them."""


def mistake(fields: str) -> str | None:
    """Return the mistake and a suggestion; None if there is none, or if only Spark can decide."""
    tokens = _Tokens(fields)
    try:
        for name, kind in _fields(tokens):
            if kind is None:
                return f"{name} has no type: give it one, as in {name} STRING"
            if kind.upper() not in TYPES:
                return f"{kind} is no type of Spark: {suggestion(kind.upper(), TYPES)}"
    except (_UnknownFormError, RecursionError):
        pass
    return None


class _UnknownFormError(Exception):
    """Spark may know this form."""


class _Tokens:
    """The tokens of a text: names, numbers, texts and signs."""

    def __init__(self, text: str) -> None:
        self._rest: list[str] = _TOKEN.findall(text)[::-1]

    @property
    def next(self) -> str:
        """The next token; empty at the end."""
        return self._rest[-1] if self._rest else ""

    def take(self, pattern: re.Pattern[str] = _TOKEN) -> str:
        """Remove and return the next token. Raises _UnknownFormError if it does not match."""
        if not pattern.fullmatch(self.next):
            raise _UnknownFormError(self.next)
        return self._rest.pop()

    def skip(self, sign: str) -> bool:
        """Remove a sign if it is next, and return whether it was."""
        is_next = self.next == sign
        if is_next:
            self._rest.pop()
        return is_next


def _fields(tokens: _Tokens) -> Iterator[tuple[str, str | None]]:
    """Names with the first word of their type. Within a type, the name is the outer field's."""
    while True:
        name = tokens.take(_NAME)
        tokens.skip(":")
        if tokens.next in (",", ">", ""):
            yield name, None
        yield from _type(tokens, name)
        if not tokens.skip(","):
            return


def _type(tokens: _Tokens, name: str) -> Iterator[tuple[str, str | None]]:
    word = tokens.take(_WORD)
    yield name, word
    if tokens.skip("<"):
        yield from _inside(tokens, word)
        if not tokens.skip(">"):
            raise _UnknownFormError(tokens.next)
    _skip_rest(tokens)


def _inside(tokens: _Tokens, word: str) -> Iterator[tuple[str, str | None]]:
    if word.upper() == "STRUCT":
        if tokens.next != ">":
            yield from _fields(tokens)
        return
    yield from _type(tokens, word)
    while tokens.skip(","):
        yield from _type(tokens, word)


def _skip_rest(tokens: _Tokens) -> None:
    """Skip sizes, NOT NULL, COMMENT and everything else after a type."""
    depth = 0
    while depth or tokens.next not in (",", ">", ""):
        sign = tokens.take()
        if sign in _FOREIGN:
            raise _UnknownFormError(sign)
        depth += (sign == "(") - (sign == ")")
