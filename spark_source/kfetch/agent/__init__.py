"""The executor's agent: a process that holds the fetch sessions of all tasks of one executor.

A worker finds or starts the agent (``client``, ``launch``, ``home``) and talks to it over a Unix
socket (``channel``). ``server`` serves workers. ``shared_query`` is one query, ``shared_broker``
fetches from one of its brokers, and ``broker_thread`` is the thread for it. ``inbox`` brings a
task's arrivals. ``budget`` limits memory: ``reply_memory`` is a broker's part of it, and
``decoding_memory`` a reader's. ``freed_memory`` gives it back to the system. ``shared_metadata``
spares requests when many tasks lose a leader. ``segment_pool`` hands batches over in shared memory
(``segments``). ``read_ahead`` caches records beyond a range's end.

``inline`` runs a query in Spark's Python worker instead: without a process, socket or thread.
"""
