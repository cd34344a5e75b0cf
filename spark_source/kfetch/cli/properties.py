"""Reads a file with properties of Kafka's clients, as kafka-topics.sh takes it."""

from __future__ import annotations

import re
from pathlib import Path

from kfetch.errors import OptionError

__all__ = ["parse_properties", "read_properties"]

_LINE = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_OWN = ("kafka.", "kfetch.", "schema.registry.")


def read_properties(path: Path) -> dict[str, str]:
    """Return the options of a file.

    Raises OptionError if the file can't be read, and for a name that can't be used: with its line.
    """
    from kfetch.options.catalogue import check_names

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is no UTF-8 text"
        raise OptionError(
            f"{path} can't be read: {reason}", action="correct --properties", file=str(path)
        ) from None
    options: dict[str, str] = {}
    for number, line in _numbered_lines(text):
        of_line = parse_properties(line)
        try:
            check_names(of_line, batch=True)
        except OptionError as cause:
            where = {**cause.where, "file": str(path), "line": number}
            what = f"{path}:{number}: {cause.what}"
            raise type(cause)(what, action=cause.action, **where) from None
        options |= of_line
    return options


def parse_properties(text: str) -> dict[str, str]:
    """Return the options that a text of Java's ``Properties.load`` names.

    Names get ``kafka.`` in front, unless they are options of the source, such as ``subscribe``.
    """
    from kfetch.admin.values import known_options

    own = {option.name for option in known_options()}
    options = {}
    for _, line in _numbered_lines(text):
        if match := _LINE.fullmatch(line):
            name = _unescaped(match["name"]).encode(errors="replace").decode()
            prefix = "" if name.startswith(_OWN) or name in own else "kafka."
            options[prefix + name] = _unescaped(match["value"])
    return options


def _numbered_lines(text: str) -> list[tuple[int, str]]:
    """Join lines that end in a backslash with the next ones. Leave out comments and empty lines.

    Each has the number of its first line, from 1 on.
    """
    lines: list[tuple[int, str]] = []
    unfinished, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not unfinished and line[:1] in ("", "#", "!"):
            continue
        first = first if unfinished else number
        unfinished += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            unfinished = unfinished[:-1]
            continue
        lines.append((first, unfinished))
        unfinished = ""
    return [*lines, (first, unfinished)] if unfinished else lines


def _unescaped(text: str) -> str:
    """Replace escapes. Java escapes UTF-16, so a character beyond U+FFFF is a pair of escapes."""
    units = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _LETTERS.get(escape, escape)
