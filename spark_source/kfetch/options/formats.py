"""The options that say how keys and values become columns: ``valueFormat`` and those it needs.

``keyFormat`` and its options have the same meanings for keys. Each format's folder says which of
them it reads (``kfetch.formats.options``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kfetch.options.converters import one_of
from kfetch.options.option import Option, by_name
from kfetch.options.registry import RegistryColumn


def _version(text: str) -> int | None:
    if text.lower() == "latest":
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("latest, or the number of a version")
    return int(text)


_OF_VALUES = (
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
        default="PERMISSIVE for json, FAILFAST for avro and protobuf",
    ),
    Option("valueTimeZone", "the zone of times without one in JSON, such as `UTC`"),
)


def _of_keys(option: Option) -> Option:
    return replace(
        option,
        name=option.name.replace("value", "key"),
        meaning=f"as `{option.name}`, for keys",
        default=option.default.replace("value", "key"),
    )


OPTIONS = by_name(
    *_OF_VALUES,
    Option(
        "valueFields",
        "`flat`: the fields of the struct are columns, in place of `value`",
        default="nested",
    ),
    *map(_of_keys, _OF_VALUES),
    Option(
        "deadLetters",
        "`column`: adds `deadLetter`, null for good records; else why a key or value does not "
        "fit, and its bytes; see docs/how-to/dead-letters.md",
        one_of("column"),
        unset="",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedColumn:
    """How keys or values become structs. Each format has a class of its own.

    The class says which options the format reads, by their names behind ``key`` or ``value``.
    """

    format: ClassVar[str]
    """Its name in ``valueFormat``."""
    reads: ClassVar[tuple[str, ...]]
    """The options that the format reads."""
    reader_option: ClassVar[str] = ""
    """The option with the reader's schema, beside which a registry needs no subject."""
    types_in_registry: ClassVar[bool] = True
    """Whether the schema may be that of a registry. If not, options always say it."""
    default_mode: ClassVar[str] = "FAILFAST"
    """As in Spark."""
    planned_modes: ClassVar[tuple[str, ...]] = ()
    """Modes that are not built yet."""

    column: str
    """``key`` or ``value``."""
    mode: str
    """``permissive`` or ``failfast``, as in Spark's from_json, from_avro and from_protobuf."""
    flat: bool = False
    """Whether the fields are columns of their own, in place of the struct: valueFields=flat."""
    registry: RegistryColumn | None = None
    """The registry if values are in Confluent's wire format."""

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], **shared: Any) -> Self:
        """Returns the column of the texts of its options. ``shared``: the fields of this class."""
        raise NotImplementedError

    @classmethod
    def needed(cls, column: str, texts: Mapping[str, str], *, has_registry: bool) -> dict[str, str]:
        """Returns the options that must say the schema, with what to set them to.

        Raises OptionError for texts that contradict each other.
        """
        raise NotImplementedError

    @property
    def type_option(self) -> str:
        """The option that names the type."""
        raise NotImplementedError
