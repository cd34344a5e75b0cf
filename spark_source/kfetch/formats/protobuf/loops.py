"""The compiled Protobuf decoder: one loop over messages that writes the buffers of all columns.

The message's type is a table of fields (``plan``), so the code is the same for all types.
A value that Google's Java library or Spark refuses becomes a null row, and its number is listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns.intrinsics import called, inlined
from kfetch.formats.columns.node_table import (
    AT,
    CORRUPT,
    DONE,
    FULL,
    NODE_COUNT,
    NODE_WIDTH,
    REASON,
    RECORD,
    REFUSED,
)
from kfetch.formats.columns.node_table import COUNT as NODE_SLOTS
from kfetch.formats.columns.slot_loops import null_slots, rewind, row_with
from kfetch.formats.protobuf.field_table import (
    BAD,
    BYTES_TYPE,
    CLOSED,
    COUNT,
    DEPTH_MAX,
    ENUM,
    ENUM_TYPE,
    FIELD_COUNT,
    FIELD_WIDTH,
    FIRST,
    IMPLICIT,
    MESSAGE_TYPE,
    MISMATCH,
    NO_REASON,
    NO_ROOM,
    NOT_UTF8,
    NUMBER,
    ONEOF,
    PRESENT,
    REPEATED,
    SIZE,
    SIZED_WIRE,
    STRICT,
    STRING_TYPE,
    TOO_DEEP,
    TRUNCATED,
    TYPE,
    VALUE,
    WIRE,
)
from kfetch.formats.protobuf.row_loops import append, clear_oneof, emit, forget
from kfetch.formats.protobuf.text_loops import enum_row, is_utf8_at
from kfetch.formats.protobuf.wire_loops import length, scalar, skip_field, tag


@inlined
def _find(fields: Any, message: Any, number: int, guess: int) -> Any:
    """``guess``: the field that comes next if the fields are in the order of their numbers."""
    end = message[FIRST] + message[COUNT]
    if guess < end and row_of(fields, guess, FIELD_WIDTH)[NUMBER] == number:
        return guess
    return row_with(fields, message[FIRST], message[COUNT], FIELD_WIDTH, number)


@inlined
def _is_unknown(field: Any, enums: Any, value: int) -> Any:
    """Returns whether a value counts as an unknown field: a number that a closed enum has not."""
    if field[CLOSED] == 0:
        return False
    return enum_row(enums, field[ENUM], value) < 0


@inlined
def _is_bad_text(field: Any, value: int, size: int) -> Any:
    return field[STRICT] != 0 and field[TYPE] == STRING_TYPE and not is_utf8_at(value, size)


@called
def _read_packed(
    data: Any, at: Any, end: Any, field: Any, nodes: Any, enums: Any, state: Any
) -> Any:
    """Appends the elements of a packed list. Returns the position behind it, and a problem."""
    problem = np.int64(0)
    size, at = length(data, at, end)
    if at < 0:
        return at, problem
    stop = at + size
    while at < stop:
        value, _, at = scalar(data, at, stop, field[TYPE])
        if at < 0:
            return at, problem
        if _is_unknown(field, enums, value):
            problem = np.int64(MISMATCH)
        elif append(field, enums, nodes, value, 0, state) < 0:
            return np.int64(NO_ROOM), problem
    return at, problem


@inlined
def _keep(fields: Any, flat: Any, nodes: Any, subtrees: Any, number: int, value: int, size: int,
          ) -> None:  # fmt: skip
    """Keeps the value of a single field until the message's end."""
    field = row_of(fields, number, FIELD_WIDTH)
    if field[ONEOF] >= 0:
        clear_oneof(fields, flat, nodes, subtrees, number)
    present = np.int64(1)
    if field[IMPLICIT] != 0:
        kind = field[TYPE]
        is_text = kind == STRING_TYPE or kind == BYTES_TYPE  # the value is an address then
        present = np.int64(size != 0) if is_text else np.int64(value != 0)
    field[PRESENT] = present
    field[VALUE] = value
    field[SIZE] = size


@called
def _read_message(  # noqa: C901, PLR0915
    data: Any,
    at: Any,
    end: Any,
    fields: Any,
    flat: Any,
    nodes: Any,
    subtrees: Any,
    enums: Any,
    state: Any,
    stack: Any,
    groups: Any,
) -> Any:
    """Reads a message into one row. Returns 0, NO_ROOM or a reason below zero."""
    start = at
    current, limit, depth = np.int64(0), end, np.int64(0)
    message = row_of(fields, current, FIELD_WIDTH)
    guess, problem, bad_at = message[FIRST], np.int64(0), np.int64(0)
    while True:
        if at >= limit:
            if depth == 0:
                break
            depth -= 1
            if message[REPEATED] != 0:
                result = emit(fields, flat, nodes, enums, state, current)
                if result == NO_ROOM:
                    return result
                if result != 0:
                    message[BAD] = result
                guess = current
            else:
                guess = current + 1
            current, limit = stack[2 * depth], stack[2 * depth + 1]
            message = row_of(fields, current, FIELD_WIDTH)
            continue
        state[AT] = at - start
        label, at = tag(data, at, limit)
        if at < 0:
            return at
        number = _find(fields, message, label >> 3, guess)
        if number < 0:
            at = skip_field(data, at, limit, label, depth, groups)
            if at < 0:
                return at
            continue
        field = row_of(fields, number, FIELD_WIDTH)
        wire, kind, repeated = label & 7, field[TYPE], field[REPEATED]
        guess = number if repeated != 0 else number + 1
        if wire != field[WIRE]:
            if repeated != 0 and wire == SIZED_WIRE:
                at, unknown = _read_packed(data, at, limit, field, nodes, enums, state)
            else:
                at, unknown = skip_field(data, at, limit, label, depth, groups), np.int64(MISMATCH)
            if at < 0:
                return at
            # Spark looks for known numbers among the unknown fields of the whole value alone.
            if unknown != 0 and depth == 0:
                problem, bad_at = unknown, state[AT]
            continue
        if kind == MESSAGE_TYPE:
            size, at = length(data, at, limit)
            if at < 0:
                return at
            if depth >= DEPTH_MAX:
                return np.int64(-TOO_DEEP)
            if repeated == 0:
                if field[ONEOF] >= 0:
                    clear_oneof(fields, flat, nodes, subtrees, number)
                field[PRESENT] = 1
            stack[2 * depth], stack[2 * depth + 1] = current, limit
            depth += 1
            current, limit, message, guess = number, at + size, field, field[FIRST]
            continue
        value, size, at = scalar(data, at, limit, kind)
        if at < 0:
            return at
        if kind == ENUM_TYPE and _is_unknown(field, enums, value):
            if depth == 0:
                problem, bad_at = np.int64(MISMATCH), state[AT]
            continue
        if _is_bad_text(field, value, size):
            return np.int64(-NOT_UTF8)
        if repeated == 0:
            _keep(fields, flat, nodes, subtrees, number, value, size)
        elif append(field, enums, nodes, value, size, state) < 0:
            return np.int64(NO_ROOM)
    state[AT] = at - start
    result = emit(fields, flat, nodes, enums, state, np.int64(0))
    if result == NO_ROOM:
        return result
    if problem != 0:
        state[AT] = bad_at
        return -problem
    return -result


def decode_messages(
    data: Any,
    size: int,
    positions: Any,
    lengths: Any,
    count: int,
    state: Any,
    nodes: Any,
    flat_nodes: Any,
    corrupt_records: Any,
    fields: Any,
    flat: Any,
    subtrees: Any,
    enums: Any,
    stack: Any,
    groups: Any,
) -> int:
    """Writes a row for each message from state[RECORD] on. Returns DONE or FULL.

    A length below 0 is a null. ``size``: the bytes of ``data``.
    """
    root = row_of(nodes, 0, NODE_WIDTH)
    for record in range(state[RECORD], count):
        at, end = positions[record], positions[record] + np.int64(lengths[record])
        row, result = root[NODE_SLOTS], np.int64(NO_REASON)
        if end < at:
            null_slots(nodes, flat_nodes, 0)
            continue
        if record == state[REFUSED]:
            result = np.int64(-TRUNCATED)
        else:
            result = _read_message(
                data, at, end, fields, flat, nodes, subtrees, enums, state, stack, groups
            )
        if result == 0:
            continue
        rewind(nodes, state[NODE_COUNT], row)
        forget(fields, state[FIELD_COUNT])
        if result == NO_ROOM:
            state[RECORD] = record
            return FULL
        null_slots(nodes, flat_nodes, 0)
        state[REASON] = -result
        corrupt_records[state[CORRUPT]] = record
        state[CORRUPT] += 1
    state[RECORD] = count
    return DONE
