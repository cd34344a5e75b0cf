"""Decodes the values of many records into one struct column, with the meaning of ``from_protobuf``.

The positions point into the memory of the caller, which is not copied. A value that can't be
decoded is a null row, as in Spark 4.2 with the mode PERMISSIVE.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.formats.columns.decoded import DecodedColumn, FormatLoop, LoopCall, Problem, alone
from kfetch.formats.columns.node_table import AT, REASON
from kfetch.formats.columns.struct_column import positions_of
from kfetch.formats.columns.types import ValueType
from kfetch.formats.protobuf import field_table as table
from kfetch.formats.protobuf.descriptors import read_descriptors
from kfetch.formats.protobuf.plan import MessagePlan
from kfetch.formats.protobuf.schema import Item, message_tree, unknown_in_protobuf
from kfetch.records.arrow import Array
from kfetch.records.memory import UNLIMITED, Memory


def message_type(
    descriptors: bytes, name: str, *, nullable: bool = False, column: str = "value"
) -> ValueType:
    """Returns the struct of a message. Arguments and errors are those of ``ProtobufDecoder``."""
    return _plan(descriptors, name, nullable=nullable, column=column).nodes.schema


def _plan(descriptors: bytes, name: str, *, nullable: bool, column: str) -> MessagePlan:
    return MessagePlan(_root(descriptors, name, nullable=nullable, column=column), column=column)


def _root(descriptors: bytes, name: str, *, nullable: bool, column: str) -> Item:
    root = message_tree(read_descriptors(descriptors, column=column), name)
    if nullable and root.type is not None:
        children = (replace(child, nullable=True) for child in root.type.children)
        root.type = replace(root.type, children=tuple(children))
    return root


class ProtobufDecoder:
    """Decodes messages of one type, in any number of threads."""

    def __init__(
        self,
        descriptors: bytes,
        name: str,
        loops: FormatLoop,
        *,
        nullable: bool = False,
        column: str = "value",
    ) -> None:
        """``descriptors``: a FileDescriptorSet. ``name``: the message's full name.

        ``loops``: the compiled code (``loading.load``). ``nullable``: whether required
        fields may be null, for columns without the struct. ``column``: ``key`` or ``value``, whose
        options errors name. Raises OptionError if the bytes are no FileDescriptorSet or have no
        such message, or if the message contains itself. Raises NotBuilt for a message with
        groups, and for editions.
        """
        self.root = _root(descriptors, name, nullable=nullable, column=column)
        """The tree of the message's fields."""
        self.full_name = read_descriptors(descriptors, column=column).message(name).full_name
        """The message's full name."""
        self.plan = MessagePlan(self.root, column=column)
        self.loops = loops
        self.row_bytes = self.plan.nodes.row_bytes
        """Bytes that a record takes beside its text."""

    def decode(
        self,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory = UNLIMITED,
    ) -> DecodedColumn:
        """Returns the column of values that lie in ``data``, and of fewer if a part is full.

        ``positions``: int64, where each value starts. ``lengths``: int32, its bytes, below 0 for a
        null. The bytes must not change meanwhile. The result does not refer to them.
        Raises KfetchError for more bytes of text than a column can hold.
        """
        return self._call(data, positions, lengths, memory).decoded()

    def _call(
        self, data: memoryview | bytes, positions: Array, lengths: Array, memory: Memory
    ) -> LoopCall:
        plan, values = self.plan, (data, positions, lengths, memory)
        tables = plan.fields.copy(), plan.flat, plan.subtrees, plan.enums
        stack = np.zeros(2 * table.DEPTH_MAX + 2, np.int64)
        groups = np.zeros(table.DEPTH_MAX, np.int64)
        call = LoopCall(self.loops, plan.nodes, *values, *tables, stack, groups)
        call.state[table.FIELD_COUNT] = len(plan.fields)
        return call

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """Returns the same for the values of a binary column."""
        return self.decode(*positions_of(column), memory)

    def problem(self, value: bytes | memoryview, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value can't be decoded, and where; None if it can."""
        return self._call(*alone(value), memory).problem(_reason)

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the numbers of the fields that the message lacks."""
        return unknown_in_protobuf(value, self.root)


def _reason(state: array[int]) -> Problem:
    """Returns what the state of the loops says about the last corrupt record."""
    return Problem(table.REASONS[state[REASON]], state[AT])
