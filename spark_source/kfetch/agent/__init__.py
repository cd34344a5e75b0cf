"""The executor's agent: a process that holds the fetch sessions of all tasks of one executor.

A worker finds or starts the agent (``client``, ``launch``, ``home``) and talks to it over a Unix
socket (``channel``). ``server`` serves workers. ``shared_query`` is one query, and
``broker_thread`` fetches from one of its brokers. ``inbox`` brings a task's arrivals. ``budget``
limits memory. ``segment_pool`` hands batches over in shared memory (``segments``). ``read_ahead``
caches records beyond a range's end.
"""
