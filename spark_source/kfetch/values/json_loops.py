"""The compiled JSON decoder: one loop over documents that writes the buffers of all columns.

The schema is a table of nodes, so the code is the same for all schemas. A document is accepted only
if its grammar is strict JSON up to the end of its object. A field whose value does not fit its
type is null then, and the document counts as corrupt. At everything else the loop stops, takes back
what it wrote for the document, and leaves the document to ``exact``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from kfetch.compiled.pointers import copy, row_of
from kfetch.values.intrinsics import (
    at_address,
    float_from_bits,
    high_product,
    int32s,
    int64s,
    single_to_bits,
    trailing_zeros,
    special16,
    word,
)
from kfetch.values.layout import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CAPACITY,
    CHILDREN,
    CORRUPT,
    COUNT,
    DATA,
    DATE,
    DECIMAL,
    DEPTH_MAX,
    DONE,
    DOUBLE,
    DOUBTFUL,
    ENDS,
    FIRST_CHILD,
    FLOAT,
    FULL,
    INT,
    KIND,
    LONG,
    MAP,
    NAME,
    NAME_SIZE,
    NODE_COUNT,
    NODE_WIDTH,
    PARAMETERS,
    PRECISION,
    RAW,
    RECORD,
    ROOM,
    SCALE,
    SHORT,
    SIZE,
    SLACK,
    STRING,
    STRUCT,
    STUCK_NODE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ZONE_RULES,
)
from kfetch.values.number_loops import (
    MISMATCH,
    UNSURE,
    called,
    compiled as inlined,
    double_bits,
    integer,
    number_parts,
)
from kfetch.values.text_loops import (
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    FALSE,
    MINUS,
    NO_ROOM,
    NULL,
    OPEN,
    OPEN_LIST,
    QUOTE,
    TRUE,
    copy_string,
    is_word,
    null_slots,
    rewind,
    set_valid,
    skip_space,
    skip_value,
)
from kfetch.values.time_loops import copy_base64, date, timestamp

__all__ = ["compiled", "decode_documents"]

_NO_FIELD = -1

# Names.


@inlined
def _has_name(data: Any, at: int, node: Any) -> Any:
    """Returns whether a node's name and a quotation mark stand at a position."""
    name, size, i = at_address(node[NAME]), node[NAME_SIZE], 0
    if data[at + size] != QUOTE:
        return False
    while i + 8 <= size:
        if word(data, at + i) != word(name, i):
            return False
        i += 8
    if i == size:
        return True
    unused = 8 * (8 - (size - i))
    return (word(data, at + i) ^ word(name, i)) << unused == 0


@called
def _search(data: Any, at: int, size: int, nodes: Any, struct: Any) -> Any:
    """Returns the number of the field with the name at a position; _NO_FIELD without one."""
    first = struct[FIRST_CHILD]
    for number in range(first, first + struct[CHILDREN]):
        node = row_of(nodes, number, NODE_WIDTH)
        if node[NAME_SIZE] == size and _has_name(data, at, node):
            return number
    return _NO_FIELD


@inlined
def _field(data: Any, at: int, end: int, nodes: Any, struct: Any, expected: int) -> Any:
    """Returns the number of a field and the position behind its name, or UNSURE.

    ``expected``: the field that comes next if the document has the fields in the schema's order.
    """
    if expected < struct[FIRST_CHILD] + struct[CHILDREN]:
        node = row_of(nodes, expected, NODE_WIDTH)
        if at + node[NAME_SIZE] < end and _has_name(data, at, node):
            return expected, at + node[NAME_SIZE] + 1
    start = at
    while at < end:
        stops = special16(data, at)
        if stops == 0:
            at += 16
            continue
        at += trailing_zeros(stops)
        if data[at] != QUOTE or at - start > 10_000:
            return 0, UNSURE
        return _search(data, start, at - start, nodes, struct), at + 1
    return 0, UNSURE


# Scalars. Each function writes one slot, or returns MISMATCH, UNSURE or NO_ROOM.


@inlined
def _in_range(value: int, kind: int) -> Any:
    if kind == LONG:
        return True
    if kind == INT:
        return -(1 << 31) <= value < 1 << 31
    if kind == SHORT:
        return -(1 << 15) <= value < 1 << 15
    return -128 <= value < 256  # as Jackson has it: 255 becomes -1


@inlined
def _store(node: Any, slot: int, value: int, width: int) -> None:
    """Writes the low bytes of a number."""
    if width == 8:
        int64s(node[DATA])[slot] = value
    elif width == 4:
        int32s(node[DATA])[slot] = value
    else:
        values = at_address(node[DATA])
        values[slot * width] = value & 0xFF
        if width == 2:
            values[slot * 2 + 1] = value >> 8 & 0xFF


@inlined
def _integer_width(kind: int) -> Any:
    if kind == LONG:
        return 8
    if kind == INT:
        return 4
    return 2 if kind == SHORT else 1


@inlined
def _put_integer(data: Any, at: int, node: Any, kind: int, slot: int) -> Any:
    value, at = integer(data, at)
    if at >= 0:
        if not _in_range(value, kind):
            return MISMATCH
        _store(node, slot, value, _integer_width(kind))
    return at


@called
def _put_float(data: Any, at: int, node: Any, kind: int, slot: int, powers: Any) -> Any:
    if data[at] == QUOTE:
        return UNSURE
    value, digits, power, negative, is_integer, at = number_parts(data, at)
    if at < 0:
        return at
    bits, known = double_bits(value, digits, power, powers)
    if not known:
        return UNSURE
    if negative and not (is_integer and value == 0):
        bits |= -(1 << 63)
    if kind == DOUBLE:
        int64s(node[DATA])[slot] = bits
        return at
    exponent, low = (bits >> 52) & 0x7FF, bits & 0x1FFFFFFF
    # A float64 between two float32 must not be rounded again, and small float32 have fewer bits.
    if bits << 1 != 0 and (low == 0x10000000 or exponent < 1023 - 125 or exponent > 1023 + 126):
        return UNSURE
    int32s(node[DATA])[slot] = single_to_bits(np.float32(float_from_bits(bits)))
    return at


@called
def _put_decimal(data: Any, at: int, node: Any, slot: int, powers: Any) -> Any:
    quoted = data[at] == QUOTE
    value, digits, power, negative, _, at = number_parts(data, at + quoted)
    if quoted and at != UNSURE and (at < 0 or data[at] != QUOTE):
        return UNSURE
    if at < 0:
        return at
    if digits > 18:
        return UNSURE
    places, factor = power + node[SCALE], np.int64(1)
    if value == 0:
        places = 0
    if places > 18 or places < -18:
        return UNSURE
    for _ in range(places if places > 0 else -places):
        factor *= 10
    low, high = np.int64(0), np.int64(0)
    if places >= 0:
        if value != 0 and digits + places > node[PRECISION]:
            return MISMATCH
        low = value * factor
        high = np.int64(high_product(np.uint64(value), np.uint64(factor)))
    else:
        low = value // factor
        low += 2 * (value - low * factor) >= factor
        if node[PRECISION] < 18:
            factor = np.int64(1)
            for _ in range(node[PRECISION]):
                factor *= 10
            if low >= factor:
                return MISMATCH
    if negative:
        low = -low
        high = ~high + (low == 0)
    values = int64s(node[DATA])
    values[2 * slot], values[2 * slot + 1] = low, high
    return at + quoted


@inlined
def _put_boolean(data: Any, at: int, node: Any, slot: int) -> Any:
    value = np.int64(is_word(data, at, TRUE))
    if value != 0:
        at += 4
    elif data[at] == 102 and is_word(data, at + 1, FALSE):
        at += 5
    else:
        return MISMATCH
    bits, byte, bit = at_address(node[DATA]), slot >> 3, slot & 7
    bits[byte] = (bits[byte] & ((1 << bit) - 1)) | (value << bit)
    return at


@inlined
def _put_string(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    """Writes a string, or another value's text, whose opening quotation mark is read."""
    to, size = at_address(node[DATA]), node[SIZE]
    at, size = copy_string(data, at, end, to, size, node[ROOM])
    if at >= 0:
        node[SIZE] = size
        int32s(node[ENDS])[slot + 1] = size
    return at


@called
def _put_text(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    """Writes a short integer or a truth value as text."""
    start, size = at, node[SIZE]
    if is_word(data, at, TRUE):
        at += 4
    elif data[at] == 102 and is_word(data, at + 1, FALSE):
        at += 5
    else:
        value, at = integer(data, at)
        if at < 0 or (value == 0 and data[start] == MINUS):
            return UNSURE
    if size + SLACK > node[ROOM]:
        return NO_ROOM
    copy(at_address(node[DATA]), size, data, start, at - start)
    node[SIZE] = size + at - start
    int32s(node[ENDS])[slot + 1] = node[SIZE]
    return at


@called
def _put_binary(data: Any, at: int, end: int, node: Any, slot: int) -> Any:
    if data[at] != QUOTE:
        return MISMATCH
    to, size = at_address(node[DATA]), node[SIZE]
    at, size = copy_base64(data, at + 1, end, to, size, node[ROOM])
    if at >= 0:
        node[SIZE] = size
        int32s(node[ENDS])[slot + 1] = size
    return at


@called
def _put_date(data: Any, at: int, node: Any, slot: int) -> Any:
    if data[at] != QUOTE:
        return MISMATCH
    days, at = date(data, at + 1)
    if at < 0 or data[at] != QUOTE:
        return UNSURE
    int32s(node[DATA])[slot] = days
    return at + 1


@called
def _put_time(data: Any, at: int, node: Any, kind: int, slot: int, rules: int, zones: Any) -> Any:
    if data[at] == QUOTE:
        micros, at = timestamp(data, at + 1, kind == TIMESTAMP_NTZ, rules, zones)
    elif kind == TIMESTAMP:
        seconds, at = integer(data, at)
        micros = seconds * 1_000_000  # which wraps, as in Spark
    else:
        return MISMATCH
    if at >= 0:
        int64s(node[DATA])[slot] = micros
    return at


@called
def _put_raw(data: Any, at: int, node: Any, kind: int, slot: int) -> Any:
    """Writes the number that a column stores, from ``substitutes``."""
    value, at = integer(data, at)
    if kind == DECIMAL:
        values = int64s(node[DATA])
        values[2 * slot] = value
        values[2 * slot + 1], at = integer(data, at + 1)
        return at
    if kind == DOUBLE or kind == TIMESTAMP or kind == TIMESTAMP_NTZ:
        int64s(node[DATA])[slot] = value
    elif kind == FLOAT or kind == DATE:
        int32s(node[DATA])[slot] = value
    else:
        _store(node, slot, value, _integer_width(kind))
    return at


@called
def _put_rare(
    data: Any, at: int, end: int, node: Any, kind: int, slot: int, state: Any, zones: Any
) -> Any:
    if kind == BINARY:
        return _put_binary(data, at, end, node, slot)
    if state[RAW] != 0:
        return _put_raw(data, at, node, kind, slot)
    if kind == DATE:
        return _put_date(data, at, node, slot)
    return _put_time(data, at, node, kind, slot, state[ZONE_RULES], zones)


@inlined
def _put_scalar(
    data: Any,
    at: int,
    end: int,
    node: Any,
    kind: int,
    slot: int,
    state: Any,
    powers: Any,
    zones: Any,
) -> Any:
    """Writes one slot. Returns the position behind the value, or a refusal."""
    if kind == STRING:
        if data[at] == QUOTE:
            return _put_string(data, at + 1, end, node, slot)
        return _put_text(data, at, end, node, slot)
    if kind == BOOLEAN:
        return _put_boolean(data, at, node, slot)
    if kind <= LONG:
        return _put_integer(data, at, node, kind, slot)
    if state[RAW] == 0:
        if kind <= DOUBLE:
            return _put_float(data, at, node, kind, slot, powers)
        if kind == DECIMAL:
            return _put_decimal(data, at, node, slot, powers)
    return _put_rare(data, at, end, node, kind, slot, state, zones)


# Documents.


@called
def _close_struct(nodes: Any, flat_nodes: Any, struct: Any, valid: int) -> None:
    """Ends a struct's slot. Fields that the document has not are null."""
    slot, first = struct[COUNT], struct[FIRST_CHILD]
    for number in range(first, first + struct[CHILDREN]):
        if row_of(nodes, number, NODE_WIDTH)[COUNT] <= slot:
            null_slots(nodes, flat_nodes, number)
    set_valid(struct, slot, valid)
    struct[COUNT] = slot + 1


@called
def _close_list(nodes: Any, node: Any) -> None:
    slot = node[COUNT]
    int32s(node[ENDS])[slot + 1] = row_of(nodes, node[FIRST_CHILD], NODE_WIDTH)[COUNT]
    set_valid(node, slot, 1)
    node[COUNT] = slot + 1


@called
def _read_document(
    data: Any,
    at: int,
    end: int,
    nodes: Any,
    flat_nodes: Any,
    state: Any,
    powers: Any,
    zones: Any,
    stack: Any,
) -> Any:
    """Reads an object behind its opening bracket into one row.

    Returns whether it is corrupt (0 or 1), or a refusal. STUCK_NODE names the column without room.
    """
    number, depth, corrupt = np.int64(0), 0, np.int64(0)
    container = row_of(nodes, 0, NODE_WIDTH)
    kind, slot, expected = np.int64(STRUCT), container[COUNT], container[FIRST_CHILD]
    at = skip_space(data, at, end)
    empty = data[at] == CLOSE
    first = True
    while True:
        # Behind a value, or behind an opening bracket.
        if not first or empty:
            byte = data[at]
            if byte != COMMA or empty:
                if byte != (CLOSE_LIST if kind == ARRAY else CLOSE) or at >= end:
                    return UNSURE
                at += 1
                if kind == STRUCT:
                    _close_struct(nodes, flat_nodes, container, 1)
                else:
                    _close_list(nodes, container)
                if depth == 0:
                    return corrupt if at <= end else UNSURE
                depth -= 1
                number, expected = stack[2 * depth], stack[2 * depth + 1]
                container = row_of(nodes, number, NODE_WIDTH)
                kind, slot = container[KIND], container[COUNT]
                at = skip_space(data, at, end)
                first = empty = False
                continue
            at = skip_space(data, at + 1, end)
        first = empty = False

        # The name.
        if kind == ARRAY:
            target = container[FIRST_CHILD]
            node = row_of(nodes, target, NODE_WIDTH)
            if node[COUNT] >= node[CAPACITY]:
                state[STUCK_NODE] = ~target
                return NO_ROOM
        else:
            if data[at] != QUOTE:
                return UNSURE
            at += 1
            if kind == STRUCT:
                if state[RAW] != 0:
                    target, at = expected, at + 1
                else:
                    target, at = _field(data, at, end, nodes, container, expected)
            else:
                key = row_of(nodes, container[FIRST_CHILD], NODE_WIDTH)
                target = container[FIRST_CHILD] + 1
                if key[COUNT] >= key[CAPACITY]:
                    state[STUCK_NODE] = ~container[FIRST_CHILD]
                    return NO_ROOM
                at = _put_string(data, at, end, key, key[COUNT])
                if at == NO_ROOM:
                    state[STUCK_NODE] = container[FIRST_CHILD]
                if at >= 0:
                    set_valid(key, key[COUNT], 1)
                    key[COUNT] += 1
            if at < 0:
                return at
            if data[at] != COLON:
                at = skip_space(data, at, end)
                if data[at] != COLON:
                    return UNSURE
            at += 1
            if data[at] <= 32:
                at = skip_space(data, at, end)
            if at >= end:
                return UNSURE
            if target == _NO_FIELD:
                at = skip_value(data, at, end)
                if at < 0:
                    return at
                if data[at] <= 32:
                    at = skip_space(data, at, end)
                continue

        # The value.
        node = row_of(nodes, target, NODE_WIDTH)
        value_kind, value_slot = node[KIND], node[COUNT]
        if kind == STRUCT:
            expected = target + 1
            if value_slot > slot:  # the field appears twice
                return UNSURE
        byte = data[at]
        if byte == 110:
            if not is_word(data, at, NULL):
                return UNSURE
            null_slots(nodes, flat_nodes, target)
            at += 4
        elif value_kind < STRUCT:
            after = _put_scalar(data, at, end, node, value_kind, value_slot, state, powers, zones)
            if after >= 0:
                set_valid(node, value_slot, 1)
                node[COUNT] = value_slot + 1
                at = after
            elif after == NO_ROOM:
                state[STUCK_NODE] = target
                return NO_ROOM
            elif after == MISMATCH and kind == STRUCT:
                at = skip_value(data, at, end)
                if at < 0:
                    return at
                null_slots(nodes, flat_nodes, target)
                corrupt = np.int64(1)
            else:
                return UNSURE
        elif byte == (OPEN_LIST if value_kind == ARRAY else OPEN):
            if depth >= DEPTH_MAX:
                return UNSURE
            stack[2 * depth], stack[2 * depth + 1] = number, expected
            depth += 1
            number, container, kind, slot = target, node, value_kind, value_slot
            expected = node[FIRST_CHILD]
            at = skip_space(data, at + 1, end)
            empty = data[at] == (CLOSE_LIST if kind == ARRAY else CLOSE)
            first = True
            continue
        elif kind == STRUCT:
            at = skip_value(data, at, end)
            if at < 0:
                return at
            null_slots(nodes, flat_nodes, target)
            corrupt = np.int64(1)
        else:
            return UNSURE
        if data[at] <= 32:
            at = skip_space(data, at, end)


def decode_documents(
    data: Any,
    size: int,
    positions: Any,
    lengths: Any,
    count: int,
    nodes: Any,
    flat_nodes: Any,
    state: Any,
    corrupt_records: Any,
    powers: Any,
    zones: Any,
    stack: Any,
) -> int:
    """Writes a row for each document from state[RECORD] on. Returns DONE, DOUBTFUL or FULL.

    A length below 0 is a null. ``size``: the bytes of ``data``, SLACK of them behind the documents.
    """
    root = row_of(nodes, 0, NODE_WIDTH)
    for record in range(state[RECORD], count):
        at, end = positions[record], positions[record] + np.int64(lengths[record])
        row, result = root[COUNT], np.int64(0)
        if end + SLACK > size:
            state[RECORD] = record
            return DOUBTFUL
        if end >= at:
            at = skip_space(data, at, end)
        if at >= end:
            null_slots(nodes, flat_nodes, 0)
            continue
        if data[at] == OPEN:
            result = _read_document(
                data, at + 1, end, nodes, flat_nodes, state, powers, zones, stack
            )
        elif data[at] < 0x80:  # whatever it is, it is no object
            _close_struct(nodes, flat_nodes, root, 1)
            result = np.int64(1)
        else:
            result = np.int64(UNSURE)
        if result < 0:
            rewind(nodes, state[NODE_COUNT], row)
            state[RECORD] = record
            return FULL if result == NO_ROOM else DOUBTFUL
        if result > 0:
            corrupt_records[state[CORRUPT]] = record
            state[CORRUPT] += 1
    state[RECORD] = count
    return DONE


def compiled(name: str) -> tuple[str, str]:
    """Returns the symbol of the function of that name, and LLVM's text of all that it needs."""
    signature = tuple(_numba_type(parameter) for parameter in PARAMETERS[name])
    # Without wrappers for Python and C, which would need numba at run time.
    standalone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    function = njit(types.int64(*signature), **standalone)(globals()[name])
    return function.overloads[signature].fndesc.llvm_func_name, function.inspect_llvm(signature)


def _numba_type(parameter: str) -> Any:
    kind = getattr(types, parameter.rstrip("*"))
    return types.CPointer(kind) if parameter.endswith("*") else kind
