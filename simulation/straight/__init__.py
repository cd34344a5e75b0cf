"""Simulates straight writes to Delta: tasks write files, and the driver commits them.

world.py    the query of ``simulation.world``, which writes straight or through Spark by turns, and
            what must hold of its table
table.py    the table's log, as delta-rs shows it to ``kfetch.delta.log``, and its other writers
disk.py     the file system of the table: its calls take time and fail, and processes die in them
chaos.py    what a seed draws beside the trouble of a query
planted.py  faults that it must find

``kfetch.delta`` is the real one: it decides what a file, a commit and a repeated micro-batch is.
The files are real Parquet, in memory.

What must hold: each commit has the files of all tasks of one micro-batch, its transaction, and no
file of an attempt that failed. Each record that Kafka acknowledged is once in the files that the
log names. The same holds after each change between both ways.
"""
