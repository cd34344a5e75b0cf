"""Fields in Spark's DDL, ``id BIGINT, tags ARRAY<STRING>``, looked at without Spark.

Only what no Spark takes is a mistake: a word that is no type where a type must be, a name without
one. At the first form that is not known here the looking ends, and Spark has the last word.
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
"""The words with which a type begins in Spark 4.2, which was asked for each of them."""

_TOKEN = re.compile(r"--|/\*|\w+|`(?:[^`]|``)+`|'[^'\\]*'|\"[^\"\\]*\"|\S")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\w+|`.+`", re.DOTALL)
_FOREIGN = frozenset(("--", "/*", "`", "'", '"', "<"))
"""What changes the meaning of all that follows it."""


def mistake(fields: str) -> str | None:
    """What is wrong, and what to write; None if nothing is, or if only Spark can tell."""
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
    """Spark may know what this means."""


class _Tokens:
    """Names, numbers, texts and signs, one by one."""

    def __init__(self, text: str) -> None:
        self._rest: list[str] = _TOKEN.findall(text)[::-1]

    @property
    def next(self) -> str:
        """Empty at the end."""
        return self._rest[-1] if self._rest else ""

    def take(self, pattern: re.Pattern[str] = _TOKEN) -> str:
        """The next one, which has to be of a form."""
        if not pattern.fullmatch(self.next):
            raise _UnknownFormError(self.next)
        return self._rest.pop()

    def skip(self, sign: str) -> bool:
        """Pass a sign, if it is next."""
        found = self.next == sign
        if found:
            self._rest.pop()
        return found


def _fields(tokens: _Tokens) -> Iterator[tuple[str, str | None]]:
    """Names with the first word of their type; within types, the name is that of the type."""
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
    _pass_rest(tokens)


def _inside(tokens: _Tokens, word: str) -> Iterator[tuple[str, str | None]]:
    if word.upper() == "STRUCT":
        if tokens.next != ">":
            yield from _fields(tokens)
        return
    yield from _type(tokens, word)
    while tokens.skip(","):
        yield from _type(tokens, word)


def _pass_rest(tokens: _Tokens) -> None:
    """Sizes, NOT NULL, COMMENT and whatever else stands behind a type."""
    depth = 0
    while depth or tokens.next not in (",", ">", ""):
        sign = tokens.take()
        if sign in _FOREIGN:
            raise _UnknownFormError(sign)
        depth += (sign == "(") - (sign == ")")
