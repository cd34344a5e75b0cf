"""The fetch engine: ranges of offsets are read through fetch sessions.

``fetcher`` is one broker: one connection, one session, one request in flight. ``broker_reader``
reads ranges through it, ``progress`` is how far a range has come, ``recovery`` answers a
partition's errors, and ``split_reader`` joins them into Arrow batches. ``inline`` runs all of it
inside Spark's Python worker. ``events`` are the facts, ``stats`` their sums.
"""
