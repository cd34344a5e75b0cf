"""The messages of Google and Confluent that files import and registries do not hold.

Their fields are those of google/protobuf/*.proto and confluent/type/decimal.proto, all of proto3.
"""

from __future__ import annotations

from kfetch.formats.protobuf import layout
from kfetch.formats.protobuf.types import EnumType, Field, MessageType

__all__ = ["WELL_KNOWN", "add_well_known"]

_FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "google.protobuf.Timestamp": (("seconds", layout.INT64_TYPE), ("nanos", layout.INT32_TYPE)),
    "google.protobuf.Duration": (("seconds", layout.INT64_TYPE), ("nanos", layout.INT32_TYPE)),
    "google.protobuf.Any": (("type_url", layout.STRING_TYPE), ("value", layout.BYTES_TYPE)),
    "google.protobuf.Empty": (),
    "google.protobuf.DoubleValue": (("value", layout.DOUBLE_TYPE),),
    "google.protobuf.FloatValue": (("value", layout.FLOAT_TYPE),),
    "google.protobuf.Int64Value": (("value", layout.INT64_TYPE),),
    "google.protobuf.UInt64Value": (("value", layout.UINT64_TYPE),),
    "google.protobuf.Int32Value": (("value", layout.INT32_TYPE),),
    "google.protobuf.UInt32Value": (("value", layout.UINT32_TYPE),),
    "google.protobuf.BoolValue": (("value", layout.BOOL_TYPE),),
    "google.protobuf.StringValue": (("value", layout.STRING_TYPE),),
    "google.protobuf.BytesValue": (("value", layout.BYTES_TYPE),),
    "confluent.type.Decimal": (
        ("value", layout.BYTES_TYPE),
        ("precision", layout.UINT32_TYPE),
        ("scale", layout.INT32_TYPE),
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
    return Field(
        name=name,
        number=number,
        type=kind,
        type_name="",
        is_repeated=False,
        is_required=False,
        oneof=-1,
        has_presence=False,
        is_strict=kind == layout.STRING_TYPE,
        is_closed=False,
        default=None,
    )
