"""The options that say how keys and values become columns: ``valueFormat`` and those it needs.

``keyFormat`` and its options have the same meanings for keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from kfetch.errors import NotBuilt, OptionError
from kfetch.options.option import Option, OptionReader, by_name
from kfetch.options.registry import RegistryColumn, check_used, registry_column

_MODES = {"json": "PERMISSIVE", "avro": "FAILFAST", "protobuf": "FAILFAST"}
"""The default mode of each format, as in Spark."""
_MODES_TEXT = "PERMISSIVE for json, FAILFAST for avro and protobuf"


def _is_column(text: str) -> bool:
    if text.lower() != "column":
        raise ValueError("column")
    return True


def _version(text: str) -> int | None:
    if text.lower() == "latest":
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("latest, or the number of a version")
    return int(text)


OPTIONS = by_name(
    Option(
        "valueFormat",
        "`string`: `value` is text; `json`, `avro`, `protobuf`: it is a struct, decoded in the "
        "agent; see docs/how-to/json.md, docs/how-to/avro.md, docs/how-to/protobuf.md",
        str.lower,
        "binary",
    ),
    Option(
        "valueSchema",
        "the struct of `valueFormat=json`, as DDL or `StructType.json()`; for `avro`, the "
        "writer's schema as the JSON of an .avsc file",
    ),
    Option(
        "valueReaderSchema",
        "the schema of the struct in Avro, if it differs from the writer's",
        default="valueSchema",
    ),
    Option(
        "valueDescriptor",
        "the types of `valueFormat=protobuf`: a file of `protoc --descriptor_set_out` on the "
        "driver",
    ),
    Option("valueMessage", "the full name of the message, such as `shop.Order`"),
    Option(
        "valueRegistry",
        "values are in Confluent's wire format, and these schema registries have their "
        "schemas: `https://host:8081,https://other:8081`; see docs/how-to/schema-registry.md",
    ),
    Option(
        "valueSubject",
        "the subject whose schema is the reader's, without `valueReaderSchema` or "
        "`valueDescriptor`",
        default="`<topic>-value`",
    ),
    Option("valueSubjectVersion", "the version of this schema, as a number", _version, "latest"),
    Option(
        "valueMode",
        "a value that does not fit: `PERMISSIVE` makes the field null in JSON, all fields in "
        "Avro, and the value in Protobuf; `FAILFAST` fails the query",
        default=_MODES_TEXT,
    ),
    Option("valueTimeZone", "the zone of times without one in JSON, such as `UTC`"),
    Option(
        "valueFields",
        "`flat`: the fields of the struct are columns, in place of `value`",
        default="nested",
    ),
    Option(
        "keyFormat",
        "the same for `key`: `string`, `json`, `avro` or `protobuf`",
        str.lower,
        "binary",
    ),
    Option("keySchema", "the struct of `keyFormat=json`; the writer's schema of `avro`"),
    Option("keyReaderSchema", "the schema of the struct of keys in Avro", default="keySchema"),
    Option("keyDescriptor", "the file with the types of `keyFormat=protobuf`"),
    Option("keyMessage", "the full name of the message of keys"),
    Option("keyRegistry", "keys are in Confluent's wire format, with these schema registries"),
    Option(
        "keySubject", "the subject whose schema is the reader's of keys", default="`<topic>-key`"
    ),
    Option("keySubjectVersion", "the version of this schema, as a number", _version, "latest"),
    Option(
        "keyMode",
        "a key that does not fit: `PERMISSIVE` or `FAILFAST`",
        default=_MODES_TEXT,
    ),
    Option("keyTimeZone", "the zone of times without one in keys"),
    Option(
        "deadLetters",
        "`column`: adds `deadLetter`, null for good records; else why a key or value does not "
        "fit, and its bytes; see docs/how-to/dead-letters.md",
        _is_column,
        unset=False,
    ),
)

_COLUMNS = ("key", "value")
_EFFECTIVE = {
    "json": ("Schema", "Mode", "TimeZone", "Fields", "Registry"),
    "avro": ("Schema", "ReaderSchema", "Mode", "Fields", "Registry", "Subject", "SubjectVersion"),
    "protobuf": ("Descriptor", "Message", "Mode", "Fields", "Registry", "Subject",
                 "SubjectVersion"),
}  # fmt: skip
"""The options that a format reads."""
_BUILT = ("binary", "string", "json", "avro", "protobuf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _StructColumn:
    """What is the same for every format."""

    column: str
    """``key`` or ``value``."""
    mode: str
    """``permissive`` or ``failfast``, as in Spark's from_json, from_avro and from_protobuf."""
    flat: bool = False
    """Whether the fields are columns of their own, in place of the struct: valueFields=flat."""
    registry: RegistryColumn | None = None
    """The registry if values are in Confluent's wire format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn(_StructColumn):
    """How keys or values become structs: keyFormat=json, valueFormat=json."""

    format: ClassVar[str] = "json"
    schema: str
    """Spark's DDL, or the JSON of a StructType."""
    mode: str = _MODES["json"].lower()
    time_zone: str = ""
    """The zone of times without one; empty if the schema needs none."""

    @property
    def zone_option(self) -> str:
        """The option that names the zone."""
        return f"{self.column}TimeZone"

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        return f"{self.column}Schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumn(_StructColumn):
    """How keys or values become structs: keyFormat=avro, valueFormat=avro."""

    format: ClassVar[str] = "avro"
    schema: str
    """The writer's schema, as the JSON text of an .avsc file; empty with a registry."""
    reader_schema: str = ""
    """The schema of the struct; empty for the writer's, or until the registry has given it."""
    references: tuple[str, ...] = ()
    """Schemas whose types the reader's schema names, each behind those that it needs itself."""
    mode: str = _MODES["avro"].lower()

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        if self.registry is not None and self.registry.subject:
            return f"{self.column}Subject"
        return f"{self.column}{'ReaderSchema' if self.reader_schema else 'Schema'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufColumn(_StructColumn):
    """How keys or values become structs: keyFormat=protobuf, valueFormat=protobuf."""

    format: ClassVar[str] = "protobuf"
    path: str
    """The file with the FileDescriptorSet, on the driver's machine; empty for a registry's."""
    message: str
    """The message's full name; empty until the driver has asked the registry for the first one."""
    mode: str = _MODES["protobuf"].lower()
    descriptors: bytes = field(default=b"", repr=False)
    """The file's bytes, which the driver reads and sends to the tasks."""

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        return f"{self.column}Message"


TypedColumn = JsonColumn | AvroColumn | ProtobufColumn


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
    dead_letters = read(OPTIONS["deadLetters"])
    default = "PERMISSIVE" if dead_letters else ""
    made = (_typed(column, read, text, topics, default) for column, text in chosen.items())
    typed = tuple(item for item in made if item is not None)
    check_used(read, has_registry=any(item.registry for item in typed))
    strings = tuple(column for column, text in chosen.items() if text == "string")
    if dead_letters:
        _check_dead_letters(typed)
    return Formats(typed, strings, dead_letters)


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
    own = (name for name in OPTIONS if name.startswith(column) and name != f"{column}Format")
    given = {name.removeprefix(column): read.text(name) for name in own}
    _check_used(column, given, chosen)
    if chosen not in _EFFECTIVE:
        return None
    version = read(OPTIONS[f"{column}SubjectVersion"])
    # JSON needs no subject: its schema is always an option.
    has_reader = bool(chosen == "json" or given["ReaderSchema"] or given["Descriptor"])
    registry = registry_column(column, read, topics, version, has_reader=has_reader)
    _check_schema(column, given, chosen, registry)
    shared: dict[str, Any] = {
        "column": column,
        "mode": _mode(f"{column}Mode", given["Mode"] or mode or _MODES[chosen], chosen),
        "flat": _is_flat(given.get("Fields", "")),
        "registry": registry,
    }
    if chosen == "json":
        return JsonColumn(schema=given["Schema"], time_zone=given["TimeZone"], **shared)
    if chosen == "avro":
        return AvroColumn(schema=given["Schema"], reader_schema=given["ReaderSchema"], **shared)
    return ProtobufColumn(path=given["Descriptor"], message=given["Message"], **shared)


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


_NEEDED = {
    "json": {"Schema": 'the fields, such as "id BIGINT, name STRING"'},
    "avro": {"Schema": "the writer's schema, as the JSON text of an .avsc file"},
    "protobuf": {
        "Descriptor": "a file of protoc; docs/how-to/protobuf.md has an example",
        "Message": "a full name; docs/how-to/protobuf.md has an example",
    },
}
"""The options that say a format's schema, with what to set them to."""


def _check_schema(
    column: str, given: dict[str, str], chosen: str, registry: RegistryColumn | None
) -> None:
    """Raise OptionError unless the schema of a format is known, and known once."""
    if chosen == "avro" and registry and given["Schema"]:
        raise OptionError(
            f"options {column}Schema and {column}Registry both give the writer's schema",
            action=f"remove {column}Schema; a reader's schema is {column}ReaderSchema",
            option=f"{column}Schema",
        )
    # With a registry, a message may be alone: its types are the subject's.
    if registry and chosen != "json" and not given["Descriptor"]:
        return
    for rest, text in _NEEDED[chosen].items():
        if not given[rest]:
            raise OptionError(
                f"{column}Format={chosen} needs option {column}{rest}",
                action=f"set it to {text}",
                option=f"{column}{rest}",
            )


def _format(column: str, read: OptionReader) -> str:
    name = f"{column}Format"
    text: str = read(OPTIONS[name])
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


def _mode(name: str, text: str, chosen: str) -> str:
    mode = text.lower()
    if mode in ("permissive", "failfast"):
        return mode
    if mode == "dropmalformed" and chosen == "json":
        raise NotBuilt(
            f"{name}={text} is not built yet",
            action="use deadLetters=column, and filter by deadLetter IS NULL",
            option=name,
        )
    raise OptionError(
        f"option {name} is {text!r}, but it must be PERMISSIVE or FAILFAST", option=name
    )
