"""Numbers that the compiled Protobuf loops and ``plan`` share: the table of fields, and reasons.

This module does not import numba, nor does a process with compiled code in its cache.
"""

from __future__ import annotations

from kfetch.formats.columns import node_table

# The table of fields: a row for each field of the message, and of the messages inside it. Row 0 is
# the message itself. The fields of a message have consecutive rows, in the order of their numbers.
(
    NUMBER,
    WIRE,  # the wire type of one value
    TYPE,  # the number of the type in FieldDescriptorProto
    SHAPE,  # what the field's values become: one of the shapes below
    REPEATED,
    COLUMN,  # the node of the value, or of one element; -1 for none
    LIST,  # the node of a repeated field; -1 for none
    PROBE,  # the first node that an element fills; -1 for none
    PARENT,
    FIRST,  # the first field of a message
    COUNT,
    FLAT,  # the fields of a message and of single messages inside it: where they start
    FLAT_COUNT,
    ONEOF,  # number of the oneof in the parent; -1 for none
    IMPLICIT,  # 1 if the default value counts as absent
    REQUIRED,
    STRICT,  # 1 if text must be UTF-8
    DEFAULTED,  # 1 if an absent field has a value, the default
    DEFAULT,  # bits of the default, or the address of its text
    DEFAULT_SIZE,
    CLOSED,  # 1 if unknown numbers of the enum count as unknown fields
    ENUM,  # the row of the enum in the table of enums
    SECONDS,  # rows of the two fields of a time
    NANOS,
    SUBTREE,  # the nodes inside a list: where they start in the table of subtrees
    SUBTREE_COUNT,
    # What the record has so far:
    PRESENT,
    VALUE,  # bits, or the address of text
    SIZE,  # bytes of text
    EFFECTIVE,  # 1 if the row of a message is not null
    BAD,  # a reason, if an element can't be decoded
    FIELD_WIDTH,
) = range(32)

# Shapes.
SCALAR, STRUCT_SHAPE, TIME, HIDDEN = range(4)

# Types of fields (google/protobuf/descriptor.proto).
DOUBLE_TYPE, FLOAT_TYPE, INT64_TYPE, UINT64_TYPE, INT32_TYPE, FIXED64_TYPE = range(1, 7)
FIXED32_TYPE, BOOL_TYPE, STRING_TYPE, GROUP_TYPE, MESSAGE_TYPE, BYTES_TYPE = range(7, 13)
UINT32_TYPE, ENUM_TYPE, SFIXED32_TYPE, SFIXED64_TYPE, SINT32_TYPE, SINT64_TYPE = range(13, 19)

# Wire types.
VARINT_WIRE, WIRE64, SIZED_WIRE, GROUP_START, GROUP_END, WIRE32 = range(6)

# The table of enums. An enum's first row has the count of its names, and the text of a name for
# unknown numbers. A row for each number follows, in the order of the numbers.
ENUM_NUMBER, NAME_ADDRESS, NAME_BYTES, ENUM_WIDTH = range(4)

FIELD_COUNT = node_table.OWN  # in the state of ``decode_messages``: rows of the table of fields

# Reasons. The loops return them as numbers below zero.
REASONS = (
    "",
    "the value ends inside a field",
    "a variable-length number has more than ten bytes",
    "a field has the number 0 (kfetch can't read the header of schema registries)",
    "a field has an unknown wire type",
    "a length is negative",
    "a group has no start or no end",
    "a string is not UTF-8",
    "more than 100 messages lie inside each other",
    "a required field is missing",
    "a field has the wrong wire type or an unknown enum number",
    "a time is out of range",
)
(
    NO_REASON,
    TRUNCATED,
    LONG_VARINT,
    ZERO_FIELD,
    BAD_WIRE,
    BAD_LENGTH,
    BAD_GROUP,
    NOT_UTF8,
    TOO_DEEP,
    MISSING,
    MISMATCH,
    OUT_OF_RANGE,
) = range(12)
NO_ROOM = -100

DEPTH_MAX = 100  # of messages and groups inside each other, as in Google's Java library

PARAMETERS = {
    "decode_messages": (
        *node_table.PARAMETERS,
        *("int64*", "int64*", "int64*", "int64*"),  # fields, flat fields, subtrees, enums
        *("int64*", "int64*"),  # stack, groups
    ),
}
