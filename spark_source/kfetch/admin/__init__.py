"""The interface for tools: other packages import it, ``kfetch.errors`` and ``kfetch.model``.

Other modules of kfetch may change without notice.

    query       pure: a query's options, offsets, lag, fetch totals. Importing it loads no socket.
    platform    versions, memory limits, and whether an agent can run: here and on executors
    sources     one source's partitions in Kafka: log starts, log ends, positions, losses
    brokers     whether kfetch can read from a cluster: versions, brokers, topics
    checkpoint  a query's checkpoint on this machine; offset_log has the text of its files
    checkpoint_check, to_connector  compare it with Kafka; write it for Spark's connector
    checkpoint_use  whether a query may run on it
    agents      the agents of this machine and what they report
    samples     a topic's newest records, and the schema that their JSON has
    registry_samples  the columns that a schema registry gives a topic
    explanations  the page of each error
    statistics  totals from the files in ``kfetch.statsDirectory``
    decoder     shows whether the record decoder is compiled, and compiles it
    bytecode    adds bytecode to Spark's ``pyspark.zip``

The look-ups open no fetch session, so a running query does not notice them. Times are in seconds
and sizes in bytes, unless a name says otherwise. Every error is a ``KfetchError``. Functions import
kafka, pyarrow, numba and pyspark when they need them, so importing a module here is quick.
"""
