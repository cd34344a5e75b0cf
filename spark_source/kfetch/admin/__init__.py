"""The only door for tools: everything that programs around kfetch may use of it.

Code outside of kfetch imports this package, ``kfetch.errors`` and ``kfetch.model``, nothing else.

    values      pure: options, offsets, lag, fetch totals. Importing it loads no socket.
    sources     where a source stands in Kafka: partitions, log starts, log ends, losses
    brokers     whether a cluster can be used: versions, brokers, topics
    agents      the agents of this machine and what they report
    statistics  totals from the files that ``kfetch.statsDirectory`` names
    decoder     whether the record decoder is compiled, and compiling it now
    bytecode    bytecode for Spark's ``pyspark.zip``

The look-ups open no fetch session, so a running query does not notice them. Times are in seconds
and sizes in bytes, unless a name says otherwise. Every error is a ``KfetchError``. Functions import
kafka, pyarrow, numba and pyspark when they need them, so importing a module here is quick.
"""
