"""The options that say how keys and values become columns: ``valueFormat`` and those it needs.

``keyFormat`` and its options have the same meanings for keys.
"""

from __future__ import annotations

from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.reader import OptionReader
from kfetch.options.values import JsonColumn

__all__ = ["Formats", "formats"]

_COLUMNS = ("key", "value")
_NEEDED = {
    "key": ("Schema", "Mode", "TimeZone"),
    "value": ("Schema", "Mode", "TimeZone", "Fields"),
}
_BUILT = ("binary", "string", "json")
_NOT_BUILT = ("avro", "protobuf")


class Formats(NamedTuple):
    """The columns that are no bytes."""

    typed: tuple[JsonColumn, ...] = ()
    strings: tuple[str, ...] = ()
    """Names of columns."""


def formats(read: OptionReader) -> Formats:
    """Return how keys and values are decoded. Raises OptionError or NotBuilt."""
    chosen = {column: _format(column, read) for column in _COLUMNS}
    typed = [_typed(column, read, is_json=text == "json") for column, text in chosen.items()]
    strings = tuple(column for column, text in chosen.items() if text == "string")
    return Formats(tuple(item for item in typed if item is not None), strings)


def _typed(column: str, read: OptionReader, *, is_json: bool) -> JsonColumn | None:
    given = {rest: read(column + rest, str, "") for rest in _NEEDED[column]}
    unused = [column + rest for rest, text in given.items() if text]
    if unused and not is_json:
        raise OptionError(
            f"option {unused[0]} has no effect without {column}Format=json",
            action=f"set {column}Format=json, or remove it",
            option=unused[0],
        )
    if not is_json:
        return None
    if not given["Schema"]:
        raise OptionError(
            f"{column}Format=json needs option {column}Schema",
            action='set it to the fields, such as "id BIGINT, name STRING"',
            option=f"{column}Schema",
        )
    mode = _mode(f"{column}Mode", given["Mode"] or "PERMISSIVE")
    return JsonColumn(
        column=column,
        schema=given["Schema"],
        mode=mode,
        time_zone=given["TimeZone"],
        flat=_is_flat(given.get("Fields", "")),
    )


def _format(column: str, read: OptionReader) -> str:
    name = f"{column}Format"
    text: str = read(name, str.lower, "binary")
    if text in _BUILT:
        return text
    if text in _NOT_BUILT:
        raise NotBuilt(
            f"{name}={text} is not built yet",
            action=f"leave it out, and decode the {column} in the DataFrame",
            option=name,
        )
    raise OptionError(
        f"option {name} is {text!r}, but it must be binary, string or json", option=name
    )


def _is_flat(text: str) -> bool:
    if text.lower() in ("", "nested", "flat"):
        return text.lower() == "flat"
    raise OptionError(
        f"option valueFields is {text!r}, but it must be nested or flat", option="valueFields"
    )


def _mode(name: str, text: str) -> str:
    mode = text.lower()
    if mode in ("permissive", "failfast"):
        return mode
    if mode == "dropmalformed":
        raise NotBuilt(
            f"{name}={text} is not built yet",
            action="use PERMISSIVE with a field _corrupt_record STRING, and filter by it",
            option=name,
        )
    raise OptionError(
        f"option {name} is {text!r}, but it must be PERMISSIVE or FAILFAST", option=name
    )
