"""A streaming query on two executor JVMs, for tests that look at its agents from outside.

    python -m integration.agent.query BOOTSTRAP TOPIC CLIENT_ID

Prints ``running`` when the query reads, ``stopped`` when a line on stdin has stopped it, and ends
with the Spark session at the next line.
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import SparkSession

from integration.sessions import checkpoints_in_files


def main(bootstrap: str, topic: str, client_id: str) -> None:
    """Read until told to stop."""
    spark = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=checkpoints_in_files())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.client.id": client_id,
        "subscribe": topic,
        "startingOffsets": "latest",  # no backlog from the seconds that Spark takes to start
        "kfetch.agent": "process",
        "kfetch.agent.lease": "5s",
        "kfetch.rowsPerSplit": "200",
    }
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            spark.readStream.format("kfetch")
            .options(**options)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .start()
        )
        while not query.lastProgress or query.lastProgress["batchId"] < 1:
            if query.exception():
                raise RuntimeError(str(query.exception()))
            query.awaitTermination(0.2)
        print("running", flush=True)
        sys.stdin.readline()
        query.stop()
        print("stopped", flush=True)
        sys.stdin.readline()
        spark.stop()
        print("over", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
