"""The options that say how keys and values become columns: ``valueFormat`` and those it needs.

``keyFormat`` and its options have the same meanings for keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.reader import OptionReader
from kfetch.options.registry import RegistryColumn, check_used, registry_column
from kfetch.options.values import AvroColumn, JsonColumn, ProtobufColumn, TypedColumn

__all__ = ["Formats", "formats"]

_COLUMNS = ("key", "value")
_KEY = ("Schema", "Mode", "TimeZone", "ReaderSchema", "Descriptor", "Message", "Registry",
        "Subject", "SubjectVersion")  # fmt: skip
_NEEDED = {"key": _KEY, "value": (*_KEY, "Fields")}
_EFFECTIVE = {
    "json": ("Schema", "Mode", "TimeZone", "Fields", "Registry"),
    "avro": ("Schema", "ReaderSchema", "Mode", "Fields", "Registry", "Subject", "SubjectVersion"),
    "protobuf": ("Descriptor", "Message", "Mode", "Fields", "Registry", "Subject",
                 "SubjectVersion"),
}  # fmt: skip
"""The options that a format reads."""
_BUILT = ("binary", "string", "json", "avro", "protobuf")


class Formats(NamedTuple):
    """The columns that are no bytes."""

    typed: tuple[TypedColumn, ...] = ()
    strings: tuple[str, ...] = ()
    """Names of columns."""
    dead_letters: bool = False
    """Whether a column has the records that can't be decoded."""


def formats(read: OptionReader, topics: tuple[str, ...] = ()) -> Formats:
    """Return how keys and values are decoded. Raises OptionError or NotBuilt.

    ``topics``: the topics of the query, if its options name them.
    """
    chosen = {column: _format(column, read) for column in _COLUMNS}
    dead_letters = read("deadLetters", _is_column, False)
    default = "PERMISSIVE" if dead_letters else ""
    made = (_typed(column, read, text, topics, default) for column, text in chosen.items())
    typed = tuple(item for item in made if item is not None)
    check_used(read, has_registry=any(item.registry for item in typed))
    strings = tuple(column for column, text in chosen.items() if text == "string")
    if dead_letters:
        _check_dead_letters(typed)
    return Formats(typed, strings, dead_letters)


def _is_column(text: str) -> bool:
    if text.lower() != "column":
        raise ValueError("column")
    return True


def _check_dead_letters(typed: Sequence[TypedColumn]) -> None:
    """Raise OptionError unless a record that can't be decoded may be a dead letter."""
    if not typed:
        what, action = "valueFormat=json, avro or protobuf", "set one of them"
    elif all(column.mode == "failfast" for column in typed):
        name = f"{typed[-1].column}Mode"
        what, action = f"{name}=PERMISSIVE", f"remove {name}=FAILFAST"
    else:
        return
    raise OptionError(
        f"option deadLetters has no effect without {what}",
        action=f"{action}, or remove it",
        option="deadLetters",
    )


def _typed(
    column: str, read: OptionReader, chosen: str, topics: tuple[str, ...], mode: str
) -> TypedColumn | None:
    """Return how a column is decoded. ``mode``: the default, in place of that of its format."""
    given = {rest: read(column + rest, str, "") for rest in _NEEDED[column]}
    _check_used(column, given, chosen)
    if chosen not in _EFFECTIVE:
        return None
    given["Mode"] = given["Mode"] or mode
    # JSON needs no subject: its schema is always an option.
    has_reader = bool(chosen == "json" or given["ReaderSchema"] or given["Descriptor"])
    registry = registry_column(column, read, topics, has_reader=has_reader)
    if chosen == "json":
        return _json(column, given, registry)
    if chosen == "avro":
        return _avro(column, given, registry)
    return _protobuf(column, given, registry)


def _check_used(column: str, given: dict[str, str], chosen: str) -> None:
    """Raise OptionError for an option that the format does not read."""
    for rest, text in given.items():
        if not text or rest in _EFFECTIVE.get(chosen, ()):
            continue
        # JSON needs more than a registry, so Avro is the better example.
        names = [name for name, options in _EFFECTIVE.items() if rest in options]
        needed = names[1] if rest == "Registry" else names[0]
        raise OptionError(
            f"option {column}{rest} has no effect without {column}Format={needed}",
            action=f"set {column}Format={needed}, or remove it",
            option=f"{column}{rest}",
        )


def _avro(column: str, given: dict[str, str], registry: RegistryColumn | None) -> AvroColumn:
    if registry and given["Schema"]:
        raise OptionError(
            f"options {column}Schema and {column}Registry both give the writer's schema",
            action=f"remove {column}Schema; a reader's schema is {column}ReaderSchema",
            option=f"{column}Schema",
        )
    if not registry and not given["Schema"]:
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
        registry=registry,
    )


def _protobuf(
    column: str, given: dict[str, str], registry: RegistryColumn | None
) -> ProtobufColumn:
    # With a registry, the message may be alone: its types are the subject's.
    needs_all = not registry or given["Descriptor"]
    for rest, example in (("Descriptor", "a file of protoc"), ("Message", "a full name")):
        if needs_all and not given[rest]:
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
        registry=registry,
    )


def _json(column: str, given: dict[str, str], registry: RegistryColumn | None) -> JsonColumn:
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
        registry=registry,
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
            action="use deadLetters=column, and filter by deadLetter IS NULL",
            option=name,
        )
    raise OptionError(
        f"option {name} is {text!r}, but it must be PERMISSIVE or FAILFAST", option=name
    )
