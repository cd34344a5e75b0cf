"""kfetch: a Spark Structured Streaming source for Apache Kafka.

``spark.readStream.format("kfetch")`` finds the source by itself (``pyspark_kfetch``). Importing
this package loads no socket, no numba and no Spark: open ``source`` for the driver's half,
``worker`` for the executor's half, and ARCHITECTURE.md for the life of a record.
"""

__version__ = "0.1.0"
