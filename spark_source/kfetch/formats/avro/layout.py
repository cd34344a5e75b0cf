"""Numbers that the compiled Avro loops and ``program`` share: instructions, state, reasons.

This module imports nothing, so a process with compiled code in its cache does not import numba.
"""

# A program is a table of int64: one row for each instruction.
OP, NODE, A, B, C, WIDTH = range(6)

(
    END,  # the record ends
    FAIL,  # the schemas do not fit here; A: the number of the sentence
    STRUCT,  # a struct's slot is complete
    NULL,  # the node and all inside get a null
    NULL_OTHERS,  # the children of a union's struct get a null, apart from child A
    BOOL,
    INT32,  # int to 32 bits
    INT64,  # long to 64 bits
    WIDEN,  # int to 64 bits
    MILLIS,  # milliseconds to microseconds; A: 1 if an int is written
    FLOAT4,
    DOUBLE8,
    CONVERT,  # to FLOAT or DOUBLE; A: INT_FROM, LONG_FROM or FLOAT_FROM; B: 1 by way of float
    TEXT,  # string or bytes
    KEY,  # of a map: text that has no bits for nulls
    FIXED,  # A: bytes
    DECIMAL,  # A: bytes, or -1 for bytes with a length; B, C: upper and lower half of 10**precision
    ENUM,  # A: symbols; B: address of pairs (address, size); a size below 0 is no symbol
    UNION,  # A: branches, whose rows follow: their column A is the target
    JUMP,  # A: target
    LIST,  # array or map; A: first child; B: row behind it; C: least bytes of an element
    NEXT,  # A: first child; B: row of the element; C: least bytes of an element
    DEFAULT,  # read from other memory until RESTORE; A: address; B: bytes
    RESTORE,
    SKIP_INT,
    SKIP_LONG,
    SKIP_BYTES,  # A: bytes
    SKIP_TEXT,
    SKIP_LIST,  # B: row behind it; C: least bytes of an element
    SKIP_NEXT,  # B: row of the element; C: least bytes of an element
) = range(30)

INT_FROM, LONG_FROM, FLOAT_FROM = range(3)

# The state of ``decode_records``: numbers that both sides read and write.
(
    RECORD,  # the next record
    STUCK_NODE,  # the node without room for text, or ~ the child of a list without slots
    CORRUPT,  # number of corrupt records so far
    REASON,  # why the last of them is corrupt
    AT,  # the byte of its value
    ROW,  # the instruction that failed
    NODE_COUNT,
    STATE_WIDTH,
) = range(8)

# Results of ``decode_records``.
DONE, FULL, LARGE = 0, 1, 2

# Reasons, as positions: each is below 0.
(
    ENDS_EARLY,
    BAD_NUMBER,
    NEGATIVE,
    BAD_BRANCH,
    BAD_SYMBOL,
    LOST_SYMBOL,
    BAD_DECIMAL,
    BAD_TIME,
    TOO_MANY,
    UNRESOLVED,
    NO_ROOM,
    NO_OFFSETS,
) = range(-12, 0)

SLACK = 64  # text is written up to so many bytes behind its end
TEXT_MAX = 2**31 - 1 - SLACK  # bytes of a column's text, and slots of a list's elements
EMPTY_MAX = 10_000  # elements of a record that take no bytes
LISTS_MAX = 64  # lists inside each other

# The compiled functions and their parameters, with C's type names. Each returns an int64.
PARAMETERS = {
    "decode_records": (
        *("uint8*", "int64", "int64*", "int32*", "int32*", "int64"),  # data, size, positions,
        # lengths, rows of the programs' starts, count
        *("int64*", "int64*", "int64*", "int64*"),  # program, nodes, flat nodes, state
        *("int32*", "int64*"),  # corrupt records, counts of the open lists
    ),
}
