"""Numbers that the compiled loops and ``struct_column`` share: columns of tables, states, results.

This module imports nothing, so a process with compiled code in its cache does not import numba.
The numbers of kinds are those of ``types.Kind``; a test compares them.
"""

# The table of nodes: one row for each type of the schema, the struct of the document first. The
# children of a node have consecutive rows.
(
    KIND,
    FIRST_CHILD,
    CHILDREN,
    COUNT,  # slots written
    CAPACITY,  # slots that fit
    VALID,  # address of the bits that say which slots are not null
    ENDS,  # address of int32 offsets: of strings, binaries, arrays and maps
    DATA,  # address of the values
    SIZE,  # bytes of strings written
    ROOM,  # bytes of strings that fit
    PRECISION,
    SCALE,
    NAME,  # address of the name, with SLACK bytes behind it
    NAME_SIZE,
    FLAT,  # the node and all fields inside it: its first number in the table of flat nodes
    FLAT_COUNT,
    NODE_WIDTH,
) = range(17)

# Kinds of types.
INTERVAL = 0
BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, DECIMAL, STRING, BINARY = range(1, 11)
DATE, TIMESTAMP, TIMESTAMP_NTZ, STRUCT, ARRAY, MAP = range(11, 17)

# The state of ``decode_documents``: numbers that both sides read and write.
(
    RECORD,  # the next record, or the one that could not be decoded
    STUCK_NODE,  # the node without room for text, or ~ the child of a list without slots
    CORRUPT,  # number of corrupt records so far
    RAW,  # 1 if the documents come from ``substitutes``: storage numbers, fields in order
    ZONE_RULES,  # number of rows in the table of zone offsets
    NODE_COUNT,
    STATE_WIDTH,
) = range(7)

# Results of ``decode_documents``.
DONE, DOUBTFUL, FULL = 0, 1, 2

SLACK = 64  # the loops read and write up to so many bytes behind the end
DEPTH_MAX = 64  # of containers inside each other that the loops read
UNREADABLE = 1 << 40  # size of a name that JSON has to escape: the loops find it in no document

# The table of powers: first those of ten as bits of float64, then those of five in 128 bits.
POWERS_OF_TEN = 23
FIVES_FROM, FIVES_TO = -342, 308

# The compiled functions and their parameters, with C's type names. Each returns an int64.
PARAMETERS = {
    "decode_documents": (
        *("uint8*", "int64", "int64*", "int32*", "int64"),  # data, size, positions, lengths, count
        *("int64*", "int64*", "int64*"),  # nodes, flat nodes, state
        *("int32*", "int64*", "int64*", "int64*"),  # corrupt records, powers, zone offsets, stack
    ),
}
