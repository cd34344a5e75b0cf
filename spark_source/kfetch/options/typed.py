"""The options that say how keys and values become columns: ``valueFormat`` and those it needs.

``keyFormat`` and its options have the same meanings for keys.
"""

from __future__ import annotations

from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.reader import OptionReader
from kfetch.options.values import AvroColumn, JsonColumn, ProtobufColumn, TypedColumn

__all__ = ["Formats", "formats"]

_COLUMNS = ("key", "value")
_NEEDED = {
    "key": ("Schema", "Mode", "TimeZone", "ReaderSchema", "Descriptor", "Message"),
    "value": ("Schema", "Mode", "TimeZone", "Fields", "ReaderSchema", "Descriptor", "Message"),
}
_EFFECTIVE = {
    "json": ("Schema", "Mode", "TimeZone", "Fields"),
    "avro": ("Schema", "ReaderSchema", "Mode", "Fields"),
    "protobuf": ("Descriptor", "Message", "Mode", "Fields"),
}
"""The options that a format reads."""
_BUILT = ("binary", "string", "json", "avro", "protobuf")


class Formats(NamedTuple):
    """The columns that are no bytes."""

    typed: tuple[TypedColumn, ...] = ()
    strings: tuple[str, ...] = ()
    """Names of columns."""


def formats(read: OptionReader) -> Formats:
    """Return how keys and values are decoded. Raises OptionError or NotBuilt."""
    chosen = {column: _format(column, read) for column in _COLUMNS}
    typed = [_typed(column, read, text) for column, text in chosen.items()]
    strings = tuple(column for column, text in chosen.items() if text == "string")
    return Formats(tuple(item for item in typed if item is not None), strings)


def _typed(column: str, read: OptionReader, chosen: str) -> TypedColumn | None:
    given = {rest: read(column + rest, str, "") for rest in _NEEDED[column]}
    _check_used(column, given, chosen)
    if chosen == "json":
        return _json(column, given)
    if chosen == "avro":
        return _avro(column, given)
    return _protobuf(column, given) if chosen == "protobuf" else None


def _check_used(column: str, given: dict[str, str], chosen: str) -> None:
    """Raise OptionError for an option that the format does not read."""
    for rest, text in given.items():
        if not text or rest in _EFFECTIVE.get(chosen, ()):
            continue
        needed = next(name for name, options in _EFFECTIVE.items() if rest in options)
        raise OptionError(
            f"option {column}{rest} has no effect without {column}Format={needed}",
            action=f"set {column}Format={needed}, or remove it",
            option=f"{column}{rest}",
        )


def _avro(column: str, given: dict[str, str]) -> AvroColumn:
    if not given["Schema"]:
        raise OptionError(
            f"{column}Format=avro needs option {column}Schema",
            action="set it to the writer's schema, as the JSON text of an .avsc file",
            option=f"{column}Schema",
        )
    return AvroColumn(
        column=column,
        schema=given["Schema"],
        reader_schema=given["ReaderSchema"],
        mode=_mode(f"{column}Mode", given["Mode"] or "FAILFAST", is_json=False),
        flat=_is_flat(given.get("Fields", "")),
    )


def _protobuf(column: str, given: dict[str, str]) -> ProtobufColumn:
    for rest, example in (("Descriptor", "a file of protoc"), ("Message", "a full name")):
        if not given[rest]:
            raise OptionError(
                f"{column}Format=protobuf needs option {column}{rest}",
                action=f"set it to {example}; docs/how-to/protobuf.md has an example",
                option=f"{column}{rest}",
            )
    return ProtobufColumn(
        column=column,
        path=given["Descriptor"],
        message=given["Message"],
        mode=_mode(f"{column}Mode", given["Mode"] or "FAILFAST", is_json=False),
        flat=_is_flat(given.get("Fields", "")),
    )


def _json(column: str, given: dict[str, str]) -> JsonColumn:
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
    raise OptionError(
        f"option {name} is {text!r}, but it must be binary, string, json, avro or protobuf",
        option=name,
    )


def _is_flat(text: str) -> bool:
    if text.lower() in ("", "nested", "flat"):
        return text.lower() == "flat"
    raise OptionError(
        f"option valueFields is {text!r}, but it must be nested or flat", option="valueFields"
    )


def _mode(name: str, text: str, *, is_json: bool = True) -> str:
    mode = text.lower()
    if mode in ("permissive", "failfast"):
        return mode
    if mode == "dropmalformed" and is_json:
        raise NotBuilt(
            f"{name}={text} is not built yet",
            action="use PERMISSIVE with a field _corrupt_record STRING, and filter by it",
            option=name,
        )
    raise OptionError(
        f"option {name} is {text!r}, but it must be PERMISSIVE or FAILFAST", option=name
    )
