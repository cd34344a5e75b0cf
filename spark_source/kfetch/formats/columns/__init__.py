"""Struct columns: their types, DDL, tables of nodes, and the compiled loops that fill them.

``types`` is the tree of Spark's types, and ``ddl`` reads and writes it. ``struct_column`` has the
buffers of a column, and ``node_table`` the numbers that it shares with the loops. ``slot_loops``
serves the loops of all formats, on the machine operations of ``intrinsics``. ``decoded`` calls the
loops, and is what every decoder returns. ``raw_copies`` copies the bytes of some records into a
column.
"""
