"""The types of Protobuf files, as far as they change how values are decoded."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.formats.protobuf import field_table as table


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum."""

    name: str
    """Its name without the package, which Java uses for unknown numbers."""
    names: dict[int, str]
    """The first name of each number."""
    numbers: dict[str, int]
    """The number of each name."""
    first: int
    """The number that stands first: the default."""
    is_closed: bool
    """Whether other numbers count as unknown fields: in proto2."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message."""

    name: str
    number: int
    type: int
    """The number of FieldDescriptorProto.Type."""
    type_name: str = ""
    """The full name of its message or enum."""
    is_repeated: bool = False
    is_required: bool = False
    oneof: int = -1
    """The number of its oneof in the message, -1 for none."""
    has_presence: bool = False
    """Whether an absent field differs from one with the default value."""
    is_strict: bool = False
    """Whether text that is not UTF-8 is an error."""
    is_closed: bool = False
    """Whether unknown numbers of its enum count as unknown fields."""
    default: bytes | None = None
    """The text of the default that its file gives it: UTF-8, for bytes with C's escapes."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message's type."""

    full_name: str
    fields: tuple[Field, ...]
    is_map_entry: bool

    @property
    def name(self) -> str:
        """The name without the package and the messages around it."""
        return self.full_name.rpartition(".")[2]


_FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "google.protobuf.Timestamp": (("seconds", table.INT64_TYPE), ("nanos", table.INT32_TYPE)),
    "google.protobuf.Duration": (("seconds", table.INT64_TYPE), ("nanos", table.INT32_TYPE)),
    "google.protobuf.Any": (("type_url", table.STRING_TYPE), ("value", table.BYTES_TYPE)),
    "google.protobuf.Empty": (),
    "google.protobuf.DoubleValue": (("value", table.DOUBLE_TYPE),),
    "google.protobuf.FloatValue": (("value", table.FLOAT_TYPE),),
    "google.protobuf.Int64Value": (("value", table.INT64_TYPE),),
    "google.protobuf.UInt64Value": (("value", table.UINT64_TYPE),),
    "google.protobuf.Int32Value": (("value", table.INT32_TYPE),),
    "google.protobuf.UInt32Value": (("value", table.UINT32_TYPE),),
    "google.protobuf.BoolValue": (("value", table.BOOL_TYPE),),
    "google.protobuf.StringValue": (("value", table.STRING_TYPE),),
    "google.protobuf.BytesValue": (("value", table.BYTES_TYPE),),
    "confluent.type.Decimal": (
        ("value", table.BYTES_TYPE),
        ("precision", table.UINT32_TYPE),
        ("scale", table.INT32_TYPE),
    ),
}
"""The names and types of each message's fields, whose numbers are 1, 2, 3."""
WELL_KNOWN = frozenset(_FIELDS)
"""Their full names."""


def add_well_known(messages: dict[str, MessageType], enums: dict[str, EnumType]) -> None:
    """Adds the messages that the files do not declare themselves."""
    for name, fields in _FIELDS.items():
        if name not in messages and name not in enums:
            made = tuple(_field(*field, i) for i, field in enumerate(fields, 1))
            messages[name] = MessageType(name, made, False)


def _field(name: str, kind: int, number: int) -> Field:
    return Field(name, number, kind, is_strict=kind == table.STRING_TYPE)
