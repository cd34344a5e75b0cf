"""Reads files of properties: of Kafka's clients, as kafka-topics.sh takes them, and of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kfetch.errors import OptionError

_LINE = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])+)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_OWN = ("kafka.", "kfetch.", "schema.registry.")


def read_properties(path: Path) -> dict[str, str]:
    """Returns the options of a file.

    Raises OptionError if the file can't be read, and for names that can't be used. The error has
    each of these names with its line.
    """
    text = _text(path, "--properties")
    options: dict[str, str] = {}
    errors: list[OptionError] = []
    for number, line in _numbered_lines(text):
        of_line = parse_properties(line)
        errors += _unusable(of_line, path, number)
        options |= of_line
    if errors:
        raise _together(errors)
    return options


def read_spark_properties(path: Path) -> dict[str, str]:
    """Returns the settings of a file such as ``spark-defaults.conf``. Raises OptionError."""
    lines = _numbered_lines(_text(path, "--spark-properties"))
    matches = (_LINE.fullmatch(line) for _, line in lines)
    return {
        _unescaped(match["name"]): _unescaped(match["value"]).strip() for match in matches if match
    }


def _text(path: Path, argument: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is no UTF-8 text"
        raise OptionError(
            f"{path} can't be read: {reason}", action=f"correct {argument}", file=str(path)
        ) from None


def _unusable(options: Mapping[str, str], path: Path, number: int) -> Iterator[OptionError]:
    """Yields the error for a line whose option kfetch does not take."""
    from kfetch.options.catalogue import check_names

    try:
        check_names(options, batch=True)
    except OptionError as cause:
        where = {**cause.where, "file": str(path), "line": number}
        yield type(cause)(f"{path}:{number}: {cause.what}", action=cause.action, **where)


def _together(errors: Sequence[OptionError]) -> OptionError:
    """Returns one error for all lines, with the place of the first one."""
    first, *others = errors
    if not others:
        return first
    return OptionError("; ".join(error.message for error in errors), **first.where)


def parse_properties(text: str) -> dict[str, str]:
    """Returns the options that a text of Java's ``Properties.load`` names.

    Names get ``kafka.`` in front, unless they are options of the source, such as ``subscribe``.
    """
    from kfetch.admin.query import known_options

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
