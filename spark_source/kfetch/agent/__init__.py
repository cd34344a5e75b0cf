"""The executor's agent: a process that holds the fetch sessions of all tasks of one executor.

A worker finds or starts it (``client``, ``launch``, ``home``) and talks to it over a Unix socket
(``channel``). ``server`` serves workers, ``shared`` is one query, ``broker_thread`` one broker of
it. ``budget`` limits memory, ``segments`` hands batches over, ``leftovers`` keeps what came early.
"""
