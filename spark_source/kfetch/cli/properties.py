"""Reads a file with properties of Kafka's clients, as kafka-topics.sh takes it."""

from __future__ import annotations

import re
from pathlib import Path

from kfetch.errors import OptionError

__all__ = ["parse_properties", "read_properties"]

_LINE = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_OWN = ("kafka.", "kfetch.")


def read_properties(path: Path) -> dict[str, str]:
    """Return the options of a file. Raises OptionError if the file can't be read."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is no UTF-8 text"
        raise OptionError(
            f"{path} can't be read: {reason}", action="correct --properties", file=str(path)
        ) from None
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Return the options that a text of Java's ``Properties.load`` names.

    Names get ``kafka.`` in front, unless they are options of the source, such as ``subscribe``.
    """
    from kfetch.admin.values import known_options

    own = {option.name for option in known_options()}
    options = {}
    for line in _logical_lines(text):
        if match := _LINE.fullmatch(line):
            name = _unescaped(match["name"])
            prefix = "" if name.startswith(_OWN) or name in own else "kafka."
            options[prefix + name] = _unescaped(match["value"])
    return options


def _logical_lines(text: str) -> list[str]:
    """Join lines that end in a backslash with the next ones. Leave out comments and empty lines."""
    lines: list[str] = []
    unfinished = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not unfinished and line[:1] in ("", "#", "!"):
            continue
        unfinished += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            unfinished = unfinished[:-1]
            continue
        lines.append(unfinished)
        unfinished = ""
    return [*lines, unfinished] if unfinished else lines


def _unescaped(text: str) -> str:
    """Replace escapes. Java escapes UTF-16, so a character beyond U+FFFF is a pair of escapes."""
    units = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _LETTERS.get(escape, escape)
