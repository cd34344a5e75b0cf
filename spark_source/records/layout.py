"""Numbers that the compiled loops and their caller share: the table of sections, the sums, faults.

Free of numba, so that a process which finds compiled code in its cache needs none. It refuses to
import: what is compiled depends on this file and on ``loops`` alone, and the cache on their bytes.
"""

# Columns of the table of sections, one row each; WANTED is written: the rows that were.
ADDRESS, SIZE, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, MAX_TIME, LATE = 0, 1, 2, 3, 4, 5, 6, 7
START, END, WANTED, WIDTH = 8, 9, 10, 11

# What is counted; then, for a fault, the section and the record where it is; then one record's
# headers, while it is read.
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS = 0, 1, 2, 3, 4
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, HEADED_ROWS = 5, 6, 7, 8, 9
FAULT_SECTION, FAULT_RECORD, OWN_KEY_BYTES, OWN_VALUE_BYTES, OWN_NULLS, TOTALS = (
    10,
    11,
    12,
    13,
    14,
    15,
)

# Fault's numbers, as far as they concern records.
MISSING, LEFTOVER, ENDS_EARLY, OVERLONG, RECORD_LENGTH, KEY_LENGTH = 1, 2, 3, 4, 5, 6
VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH = 7, 8, 9, 10
RECORD_SIZE, OFFSET_DELTA, TIMESTAMP = 11, 12, 13

MILLISECONDS_MAX = (2**63 - 1) // 1000

RECORD_BYTES_MIN = 7  # length, attributes, time, offset, key, value, headers: a byte each
SLACK = 32  # short fields are copied as so many bytes at once

# The compiled functions and their parameters, in C's words; each gives back an int64.
PARAMETERS = {
    "fill_rows": (
        *("int64*", "int64", "int64*"),  # table, its rows, totals
        *("int32*", "uint8*", "uint8*"),  # keys: ends, data, valid
        *("int32*", "uint8*", "uint8*"),  # values
        *("int64*", "int64*"),  # offsets, times
    ),
    "fill_headers": (
        *("int64*", "int64"),  # table, its rows
        *("int32*", "uint8*"),  # lists: ends, valid
        *("int32*", "uint8*"),  # keys: ends, data
        *("int32*", "uint8*", "uint8*"),  # values
    ),
}
