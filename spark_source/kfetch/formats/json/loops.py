"""The compiled JSON decoder: one loop over documents that writes the buffers of all columns.

The schema is a table of nodes, so the code is the same for all schemas. A document is accepted only
if its grammar is strict JSON up to the end of its object. A field whose value does not fit its type
is null then, and the document counts as corrupt. At anything else, the loop stops and removes what
it wrote for the document. ``reference`` decodes the document instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns.intrinsics import (
    at_address,
    called,
    inlined,
    int32s,
    special16,
    trailing_zeros,
    word,
)
from kfetch.formats.columns.node_table import (
    ARRAY,
    CAPACITY,
    CHILDREN,
    CORRUPT,
    COUNT,
    DONE,
    DOUBTFUL,
    ENDS,
    FIRST_CHILD,
    FULL,
    KIND,
    MAP,
    NAME,
    NAME_LENGTH_MAX,
    NAME_SIZE,
    NODE_COUNT,
    NODE_WIDTH,
    RECORD,
    REFUSED,
    SIZE,
    SLACK,
    STRUCT,
    STUCK_NODE,
)
from kfetch.formats.columns.slot_loops import end_list, end_slot, null_slots, rewind
from kfetch.formats.json.loop_tables import DEPTH_MAX, RAW, STRING_LENGTH_MAX
from kfetch.formats.json.number_loops import MISMATCH, UNSURE
from kfetch.formats.json.scalar_loops import put_scalar, put_string
from kfetch.formats.json.skip_loops import has_long_string, skip_value
from kfetch.formats.json.text_loops import (
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    NO_ROOM,
    NULL,
    OPEN,
    OPEN_LIST,
    QUOTE,
    is_word,
    skip_space,
)

_NO_FIELD = -1
_N = ord("n")  # of null

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
        if data[at] != QUOTE or at - start > NAME_LENGTH_MAX:
            return 0, UNSURE
        return _search(data, start, at - start, nodes, struct), at + 1
    return 0, UNSURE


# Documents.


@called
def _close_struct(nodes: Any, flat_nodes: Any, struct: Any) -> None:
    """Ends a struct's slot. Fields that the document lacks are null."""
    slot, first = struct[COUNT], struct[FIRST_CHILD]
    for number in range(first, first + struct[CHILDREN]):
        if row_of(nodes, number, NODE_WIDTH)[COUNT] <= slot:
            null_slots(nodes, flat_nodes, number)
    end_slot(struct, 1)


@called
def _read_document(  # noqa: C901, PLR0915
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
                    _close_struct(nodes, flat_nodes, container)
                else:
                    end_list(nodes, container, 1)
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
                if state[RAW] != 0:  # a substitute: all fields in order, with empty names
                    target, at = expected, at + 1
                else:
                    target, at = _field(data, at, end, nodes, container, expected)
            else:
                key = row_of(nodes, container[FIRST_CHILD], NODE_WIDTH)
                target = container[FIRST_CHILD] + 1
                if key[COUNT] >= key[CAPACITY]:
                    state[STUCK_NODE] = ~container[FIRST_CHILD]
                    return NO_ROOM
                at = put_string(data, at, end, key, key[COUNT])
                if at == NO_ROOM:
                    state[STUCK_NODE] = container[FIRST_CHILD]
                if at >= 0:
                    key[COUNT] += 1  # keys are never null
            if at < 0:
                return at
            if data[at] != COLON:
                at = skip_space(data, at, end)
                if data[at] != COLON:
                    return UNSURE
            at += 1
            if data[at] <= 32:
                at = skip_space(data, at, end)
            if target == _NO_FIELD:
                at = skip_value(data, at, end)
                if at < 0:
                    return at
                if data[at] <= 32:
                    at = skip_space(data, at, end)
                continue

        # The value.
        if at >= end:  # the next document begins there
            return UNSURE
        node = row_of(nodes, target, NODE_WIDTH)
        value_kind, value_slot = node[KIND], node[COUNT]
        if kind == STRUCT:
            expected = target + 1
            if value_slot > slot:  # the field appears twice
                return UNSURE
        byte = data[at]
        if byte == _N:
            if not is_word(data, at, NULL):
                return UNSURE
            null_slots(nodes, flat_nodes, target)
            at += 4
        elif value_kind < STRUCT:
            after = put_scalar(data, at, end, node, value_kind, value_slot, state, powers, zones)
            if after >= 0:
                end_slot(node, 1)
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


@called
def _has_long_key(nodes: Any, node_count: int, size: int) -> Any:
    """Returns whether a map of the last document has a key that may be too long for Jackson.

    ``size``: the document's bytes. Its keys are among the last ones that have so many.
    """
    for number in range(node_count):
        node = row_of(nodes, number, NODE_WIDTH)
        if node[KIND] == MAP:
            key = row_of(nodes, node[FIRST_CHILD], NODE_WIDTH)
            ends, slot = int32s(key[ENDS]), key[COUNT]
            while slot > 0 and key[SIZE] - ends[slot] <= size:
                if ends[slot] - ends[slot - 1] > NAME_LENGTH_MAX:
                    return True
                slot -= 1
    return False


def decode_documents(  # noqa: C901
    data: Any,
    size: int,
    positions: Any,
    lengths: Any,
    count: int,
    state: Any,
    nodes: Any,
    flat_nodes: Any,
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
        if at < end:
            may_have_long = end - at > STRING_LENGTH_MAX and state[RAW] == 0
            if end + SLACK > size or (may_have_long and has_long_string(data, at, end)):
                state[RECORD] = record
                return DOUBTFUL
            at = skip_space(data, at, end)
        if at >= end:
            null_slots(nodes, flat_nodes, 0)
            continue
        if record == state[REFUSED]:
            _close_struct(nodes, flat_nodes, root)
            result = np.int64(1)
        elif data[at] == OPEN:
            result = _read_document(
                data, at + 1, end, nodes, flat_nodes, state, powers, zones, stack
            )
            # Only a long document has a long key. So the loop above need not measure keys.
            may_have_long = end - at > NAME_LENGTH_MAX and state[RAW] == 0 and result >= 0
            if may_have_long and _has_long_key(nodes, state[NODE_COUNT], end - at):
                result = np.int64(UNSURE)
        elif data[at] < 0x80:  # whatever it is, it is no object
            _close_struct(nodes, flat_nodes, root)
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
