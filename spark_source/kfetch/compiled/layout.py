"""Numbers that the compiled loops and their caller share: the table of sections, the sums, faults.

Free of numba, so that a process which finds compiled code in its cache needs none. It refuses to
import: what is compiled depends on the files that ``native`` names, and the cache on their bytes.
"""

# Columns of the table of sections, one row each. CRC: what the batch's bytes must have, or CHECKED;
# SLICE: whose it is; WANTED is written: the rows that were.
ADDRESS, SIZE, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, MAX_TIME, LATE = 0, 1, 2, 3, 4, 5, 6, 7
START, END, CRC, SLICE, TIME_TYPE, EPOCH, WANTED, WIDTH = 8, 9, 10, 11, 12, 13, 14, 15

CHECKED = -1

# A walk over the batches of a slice, and where it stands: the next batch's position, the last
# offset before it, the rows of the table that are taken.
AT, BEFORE, TAKEN, WALK = 0, 1, 2, 3
DONE, FULL, UNSURE = 0, 1, 2
"""How a walk ends: at the end, for want of rows, or before a batch that needs a closer look."""

# A v2 batch header: positions, sizes, attribute bits (kafka.apache.org/documentation/#recordbatch).
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT = 8, 12, 16, 17, 21, 23
BASE_TIME_AT, MAX_TIME_AT, COUNT_AT, PREFIX_BYTES, HEADER_BYTES = 27, 35, 57, 12, 61
CODEC, LOG_APPEND_TIME, CONTROL = 0x07, 0x08, 0x20
MAGIC = 2
OFFSET_MAX = 2**63 - 2  # its successor must fit too

# The table of slices: where the topic's name lies, its bytes, the partition.
NAME, NAME_BYTES, PARTITION, SLICE_WIDTH = 0, 1, 2, 3

# What is counted; then, for a fault, the section and the record where it is.
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS, TOPIC_BYTES = 0, 1, 2, 3, 4, 5
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, HEADED_ROWS = 6, 7, 8, 9, 10
FAULT_SECTION, FAULT_RECORD, TOTALS = 11, 12, 13

# Fault's numbers, as far as they concern records.
MISSING, LEFTOVER, ENDS_EARLY, OVERLONG, RECORD_LENGTH, KEY_LENGTH = 1, 2, 3, 4, 5, 6
VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH = 7, 8, 9, 10
RECORD_SIZE, OFFSET_DELTA, TIMESTAMP = 11, 12, 13
BAD_CRC = 25

MILLISECONDS_MAX = (2**63 - 1) // 1000

RECORD_BYTES_MIN = 7  # length, attributes, time, offset, key, value, headers: a byte each
SLACK = 64  # fields are copied as so many bytes at once

# The compiled functions and their parameters, in C's words; each gives back an int64.
PARAMETERS = {
    "list_batches": (
        *("uint8*", "int64", "int64", "int64"),  # a slice's data, its size, start and end
        *("int64", "int64", "int64*"),  # its number, whether to check CRCs, the walk
        *("int64*", "int64"),  # table, how many rows it can hold
    ),
    "fill_rows": (
        *("int64*", "int64", "int64*", "int64*"),  # table, its rows, slices, totals
        *("int32*", "uint8*", "uint8*"),  # keys: ends, data, valid
        *("int32*", "uint8*", "uint8*"),  # values
        *("int64*", "int64*", "int64*"),  # offsets, times, places of headers
    ),
    "fill_constants": (
        *("int64*", "int64", "int64*"),  # table, its rows, slices
        *("int32*", "uint8*"),  # topics: ends, data
        *("int32*", "int32*"),  # partitions, types of timestamp
    ),
    "fill_headers": (
        *("int64*", "int64", "int64*"),  # table, its rows, places of headers
        *("int32*", "uint8*"),  # lists: ends, valid
        *("int32*", "uint8*"),  # keys: ends, data
        *("int32*", "uint8*", "uint8*"),  # values
    ),
}
