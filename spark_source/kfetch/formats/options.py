"""Reads the options of formats: which format keys and values have, and what its folder reads.

Importing it is cheap: of a format, it imports the module ``options`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.format import FORMATS, column_class
from kfetch.options.converters import either
from kfetch.options.formats import OPTIONS, TypedColumn
from kfetch.options.option import OptionReader
from kfetch.options.registry import check_used, registry_column

_COLUMNS = ("key", "value")
_PLAIN = ("binary", "string")
"""The values of ``valueFormat`` that decode nothing."""


class ChosenFormats(NamedTuple):
    """The columns that are no bytes."""

    typed: tuple[TypedColumn, ...] = ()
    strings: tuple[str, ...] = ()
    """Names of columns."""
    dead_letters: bool = False
    """Whether a column has the records that can't be decoded."""


def chosen_formats(read: OptionReader, topics: tuple[str, ...] = ()) -> ChosenFormats:
    """Returns how keys and values are decoded. Raises OptionError or NotBuilt.

    ``topics``: the topics of the query, if its options name them.
    """
    chosen = {column: _format(column, read) for column in _COLUMNS}
    dead_letters = bool(read(OPTIONS["deadLetters"]))
    default = "PERMISSIVE" if dead_letters else ""
    maybe_typed = (_typed(column, read, text, topics, default) for column, text in chosen.items())
    typed = tuple(item for item in maybe_typed if item is not None)
    check_used(read, has_registry=any(item.registry for item in typed))
    strings = tuple(column for column, text in chosen.items() if text == "string")
    if dead_letters:
        _check_dead_letters(typed)
    return ChosenFormats(typed, strings, dead_letters)


def _check_dead_letters(typed: Sequence[TypedColumn]) -> None:
    """Raises OptionError unless a record that can't be decoded may be a dead letter."""
    if not typed:
        what, action = f"valueFormat={either([*FORMATS])}", "set one of them"
    elif all(column.mode == "failfast" for column in typed):
        name = f"{typed[-1].column}Mode"
        what, action = f"{name}=PERMISSIVE", f"remove {name}=FAILFAST"
    else:
        return
    raise OptionError.about(
        "deadLetters", f"has no effect without {what}", action=f"{action}, or remove it"
    )


def _typed(
    column: str, read: OptionReader, chosen: str, topics: tuple[str, ...], mode: str
) -> TypedColumn | None:
    """Returns how a column is decoded. ``mode``: the default, in place of that of its format."""
    own = (name for name in OPTIONS if name.startswith(column) and name != f"{column}Format")
    given = {name.removeprefix(column): read.text(name) for name in own}
    kind = column_class(chosen) if chosen in FORMATS else None
    _check_used(column, given, kind)
    if kind is None:
        return None
    version = read(OPTIONS[f"{column}SubjectVersion"])
    has_reader = not kind.types_in_registry or bool(given.get(kind.reader_option))
    registry = registry_column(column, read, topics, version, has_reader=has_reader)
    for rest, text in kind.needed(column, given, has_registry=registry is not None).items():
        if not given[rest]:
            raise OptionError(
                f"{column}Format={chosen} needs option {column}{rest}",
                action=f"set it to {text}",
                option=f"{column}{rest}",
            )
    return kind.from_texts(
        given,
        column=column,
        mode=_mode(f"{column}Mode", given["Mode"] or mode or kind.default_mode, kind),
        flat=_is_flat(given.get("Fields", "")),
        registry=registry,
    )


def _check_used(column: str, given: Mapping[str, str], kind: type[TypedColumn] | None) -> None:
    """Raises OptionError for an option that the format does not read."""
    for rest, text in given.items():
        if text and (kind is None or rest not in kind.reads):
            needed = _example(rest)
            raise OptionError.about(
                f"{column}{rest}",
                f"has no effect without {column}Format={needed}",
                action=f"set {column}Format={needed}, or remove it",
            )


def _example(rest: str) -> str:
    """Returns a format that reads an option, for ``Registry`` one that needs no more than that."""
    readers = [kind for kind in map(column_class, FORMATS) if rest in kind.reads]
    if rest == "Registry":
        readers = [kind for kind in readers if kind.types_in_registry]
    return readers[0].format


def _format(column: str, read: OptionReader) -> str:
    name = f"{column}Format"
    text: str = read(OPTIONS[name])
    if text in _PLAIN or text in FORMATS:
        return text
    raise OptionError.about(name, f"is {text!r}, but it must be {either([*_PLAIN, *FORMATS])}")


def _is_flat(text: str) -> bool:
    if text.lower() in ("", "nested", "flat"):
        return text.lower() == "flat"
    raise OptionError.about("valueFields", f"is {text!r}, but it must be nested or flat")


def _mode(name: str, text: str, kind: type[TypedColumn]) -> str:
    mode = text.lower()
    if mode in ("permissive", "failfast"):
        return mode
    if mode in kind.planned_modes:
        raise NotBuilt(
            f"{name}={text} is not built yet",
            action="use deadLetters=column, and filter by deadLetter IS NULL",
            option=name,
        )
    raise OptionError.about(name, f"is {text!r}, but it must be PERMISSIVE or FAILFAST")
