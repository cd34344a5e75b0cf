"""Numbers that the compiled loops and their callers share: columns of tables, sums, faults.

Without numba, so that a process with compiled code in its cache does not import it. This module
imports nothing: the key of the code cache is the bytes of the files that ``native`` names.
The numbers of Kafka's formats are in ``records.format``.
"""

# The table of sections: one row for each section of records, that is for each batch. CRC is the
# expected one, or CHECKED. SLICE_NUMBER is the section's row in the table of slices. The loops
# write ROWS_WRITTEN.
ADDRESS, SIZE, RECORD_COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, MAX_TIME = 0, 1, 2, 3, 4, 5, 6
START, END, CRC, SLICE_NUMBER, TIMESTAMP_TYPE, LEADER_EPOCH, ROWS_WRITTEN = 7, 8, 9, 10, 11, 12, 13
SECTION_WIDTH = 14

CHECKED = -1

# The cursor of ``list_batches``: the position of the next batch, the last offset before it, and the
# number of rows in the table of sections.
NEXT_AT, LAST_OFFSET, ROWS_LISTED, CURSOR_WIDTH = 0, 1, 2, 3
LISTED_ALL, TABLE_FULL, NOT_PLAIN = 0, 1, 2
"""The results of ``list_batches``. NOT_PLAIN: ``records.sections`` must read the slice."""

# The progress of ``walk_batches``: the fields of ``records.batch.Walk``, in its order.
WALKED, PREVIOUS_AT, LAST_AT, WALKED_TO, WALKED_OFFSET, FIRST_AT = 0, 1, 2, 3, 4, 5

# The table of slices: address and bytes of the topic's name, and the partition.
TOPIC_ADDRESS, TOPIC_NAME_BYTES, PARTITION, SLICE_WIDTH = 0, 1, 2, 3

# The totals of ``fill_rows``. The last two say where a fault is.
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS, TOPIC_BYTES = 0, 1, 2, 3, 4, 5
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, ROWS_WITH_HEADERS = (
    6,
    7,
    8,
    9,
    10,
)
FAULT_SECTION, FAULT_RECORD, TOTALS_WIDTH = 11, 12, 13

# The numbers of ``records.faults.Fault`` that concern records. A test compares them.
MISSING, LEFTOVER, ENDS_EARLY, OVERLONG, RECORD_LENGTH, KEY_LENGTH = 1, 2, 3, 4, 5, 6
VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH = 7, 8, 9, 10
RECORD_SIZE, OFFSET_DELTA, TIMESTAMP = 11, 12, 13
CRC_FAULT = 25

# The bits of ``wanted``: what the columns are made of. The sizes of keys and values need the ends.
KEY_ENDS, KEY_DATA, VALUE_ENDS, VALUE_DATA = 1, 2, 4, 8
OFFSETS, TIMES, HEADER_POSITIONS = 16, 32, 64
TOPICS, PARTITIONS, TIMESTAMP_TYPES = 128, 256, 512

SLACK = 64  # the loops copy a field in steps of this many bytes

# The compiled functions and their parameters, with C's type names. Each returns an int64.
PARAMETERS = {
    "list_batches": (
        *("uint8*", "int64", "int64", "int64"),  # a slice's data, its size, start and end
        *("int64", "int64", "int64*"),  # its number, whether to check CRCs, the cursor
        *("int64*", "int64"),  # table of sections, how many rows fit
    ),
    "walk_batches": (
        *("uint8*", "int64", "int64", "int64*"),  # a reply's data, its size, an offset, the walk
    ),
    "fill_rows": (
        *("int64*", "int64", "int64*"),  # table of sections, its rows, slices
        *("int64", "int64*"),  # wanted, totals
        *("int32*", "uint8*", "uint8*"),  # keys: ends, data, validity
        *("int32*", "uint8*", "uint8*"),  # values
        *("int64*", "int64*", "int64*"),  # offsets, times, positions of headers
    ),
    "fill_constants": (
        *("int64*", "int64", "int64*", "int64"),  # table of sections, its rows, slices, wanted
        *("int32*", "uint8*"),  # topics: ends, data
        *("int32*", "int32*"),  # partitions, types of timestamp
    ),
    "fill_headers": (
        *("int64*", "int64", "int64*"),  # table of sections, its rows, positions of headers
        *("int32*", "uint8*"),  # lists: ends, validity
        *("int32*", "uint8*"),  # keys: ends, data
        *("int32*", "uint8*", "uint8*"),  # values
    ),
}
