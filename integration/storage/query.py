"""A query of kfetch whose checkpoint is in a store, in a process of its own.

    python -m integration.storage.query '{"servers": …, "topic": …, "checkpoint": …, …}'

It reads what is there (availableNow), and prints the end offset of its last micro-batch as the last
line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import SparkSession

from kfetch_jobs.jvm.maven import jars

_HADOOP = [
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
]
_SDK = [
    f"software.amazon.awssdk:{module}:2.35.4"
    for module in ("s3", "s3-transfer-manager", "sts", "apache-client")
]
"""The modules that S3A needs here. The SDK's bundle, which hadoop-aws names, has 600 MB."""


def s3a_jars() -> list[Path]:
    """Returns the jars that Spark needs for S3A beside its own."""
    return jars(*_HADOOP, transitive=False) + jars(*_SDK, exclude=("slf4j",))


def main(asked: dict[str, Any]) -> None:
    """Run the query to its end."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", ",".join(map(str, s3a_jars())))
        .config(map=asked["settings"])
        .getOrCreate()
    )
    query = (
        spark.readStream.format("kfetch")
        .option("kafka.bootstrap.servers", asked["servers"])
        .option("subscribe", asked["topic"])
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", asked["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    print(json.dumps(json.loads(progress["sources"][0]["endOffset"])))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
