"""A query through Spark Connect: the client has no JVM, and the server has kfetch.

    python clicks.py sc://HOST:15002 KAFKA_HOST:9092 DIRECTORY

``local[2]`` in place of the address starts a server on this machine. DIRECTORY is the server's: the
query writes ``clicks`` and ``checkpoint`` there.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def main(server: str, kafka: str, directory: str) -> None:
    """Write what the topic ``clicks`` has now, and end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for a server on this machine
    spark = SparkSession.builder.remote(server).getOrCreate()
    clicks = (
        spark.readStream.format("kfetch")
        .option("kafka.bootstrap.servers", kafka)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        clicks.selectExpr("cast(value as string) as value", "partition", "offset")
        .writeStream.format("parquet")
        .option("path", f"{directory}/clicks")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{spark.read.parquet(f'{directory}/clicks').count()} clicks")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
