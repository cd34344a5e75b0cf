"""The executor's half behind the worker: fetch sessions that outlive a task.

``fetcher`` is one broker: one connection, one session, one request in flight. ``progress`` is how
far a range has come, ``recovery`` what an error of a partition asks for, ``reading`` the
loop that joins them, and ``inline`` runs it inside Spark's Python worker, one session per broker,
query and worker. ``stats`` counts what travelled.
"""
