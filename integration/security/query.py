"""A Spark program that reads a secured topic, for a test that looks at all that it leaves.

    python query.py DIRECTORY OPTIONS.json

OPTIONS.json has the options of two queries, ``right`` and ``wrong``. The program prints plans,
progress and the error of the second query. It prints ``reading`` once the first one has read, and
ends when a line comes on stdin.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kfetch_jobs.jvm.spark import REDACTION

WITHIN_S = 120


def main(directory: Path, queries: dict[str, dict[str, str]]) -> None:
    """Run both queries, and print what Spark shows of them."""
    (directory / "events").mkdir()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.dir", f"file://{directory}/events")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.redaction.regex", REDACTION)
        .getOrCreate()
    )
    frame = load(spark, queries["right"])
    frame.explain("extended")
    query = start(frame, directory / "right")
    while not query.recentProgress and query.isActive:
        query.awaitTermination(0.1)
    query.explain(True)
    print("\n".join(progress.json for progress in query.recentProgress), flush=True)
    print("reading", flush=True)
    sys.stdin.readline()
    query.stop()
    fail(load(spark, queries["wrong"]), directory / "wrong")
    spark.stop()


def load(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Returns a stream."""
    return spark.readStream.format("kfetch").options(**options).load()


def start(frame: DataFrame, directory: Path) -> StreamingQuery:
    """Starts a query whose rows go to files."""
    writer = frame.selectExpr("cast(value as string) as value").writeStream.format("json")
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return writer.option("path", str(directory / "rows")).start()


def fail(frame: DataFrame, directory: Path) -> None:
    """Runs a query that fails, and prints its error."""
    try:
        start(frame, directory).awaitTermination(WITHIN_S)
    except Exception as error:
        print(f"failed: {error!r} {error}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
