"""Numbers that Python and the compiled loops share: the table of nodes, the state, the results.

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
    VALID,  # address of the bits that say which slots are not null; 0 for the key of a map
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

# The state of a call (``decoded.LoopCall``): numbers that both sides read and write.
(
    RECORD,  # the next record, or the one that could not be decoded
    STUCK_NODE,  # the node without room for text, or ~ the child of a list without slots
    REFUSED,  # the record that needs more memory than one may have; -1 for none
    CORRUPT,  # number of corrupt records so far
    REASON,  # why the last of them is corrupt
    AT,  # the byte of its value
    NODE_COUNT,
    OWN,  # the first of the numbers that a format has for itself
) = range(8)
STATE_WIDTH = OWN + 2

# Results of the loops.
DONE, DOUBTFUL, FULL = 0, 1, 2

SLACK = 64  # the loops read and write up to so many bytes behind the end
NAME_LENGTH_MAX = 50_000  # of a name in JSON, in Java's characters: Jackson's default
UNREADABLE = 1 << 40  # size of a name that is longer, or has escapes: the loops look for none

# The first parameters of every compiled function, with C's type names. Each returns an int64.
PARAMETERS = (
    *("uint8*", "int64", "int64*", "int32*", "int64"),  # data, size, positions, lengths, count
    *("int64*", "int64*", "int64*", "int32*"),  # state, nodes, flat nodes, corrupt records
)
