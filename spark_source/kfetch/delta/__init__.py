"""Straight to Delta: tasks write a table's files themselves, and Spark gets one row for each file.

    from kfetch import delta

    query = delta.stream(spark, options, table="/lake/orders", checkpoint="/checkpoints/orders")

``stream`` in ``query`` is the interface. ``copying`` has its parts for programs with a query of
their own, such as jobs, and for dead letters. Pure: ``columns`` says what each column has,
``types`` compares them with a table's, ``partitions`` says to which part of a table a row belongs,
``statistics`` makes of a file's footer what Delta notes of a file, ``rules`` knows which tables
can be written so, and ``plan`` has what a task needs. ``files`` writes files in a task, and
``source`` lets Spark call it. ``log`` commits them with delta-rs in the driver; nothing else
imports delta-rs. ``places`` has what differs between a disk and a store.
"""

from kfetch.delta.query import stream

__all__ = ["stream"]
