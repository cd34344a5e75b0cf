"""Queries over one checkpoint, by kfetch or by Spark's connector, in a process of its own.

    python -m integration.migration.query '{"servers": …, "directory": …, "spark": {}, "runs": […]}'

The runs follow each other in one Spark session. Each has ``sources``: pairs of a format and a
topic, whose rows come together. ``options`` are of all sources. A run reads what is there
(availableNow). ``move`` runs ``kfetch checkpoint to-kafka`` before it. With ``fails``, the run has
to end with an error of this text. With ``counts``, the rows are the counts of each topic's
partitions, which Spark's state holds. With ``die``, the process kills itself and its JVM in that
micro-batch of the run: ``before`` its rows are written or ``after`` it, but before Spark writes its
commit.

Below ``directory``: ``checkpoint``, and ``rows/<batch>`` with the rows of each micro-batch. A
micro-batch that runs again has to have the same rows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.benchmarks.peer import connector_jars
from integration.checkpoints import batches
from integration.sparks import Feature, has
from kfetch.admin.to_connector import to_connector

_RUNS_MAX = 3
"""Where a run is one micro-batch: the most runs, because records may arrive without an end."""


def main(asked: dict[str, Any]) -> None:
    """Run each of the runs to its end, or until one kills the process."""
    directory = Path(asked["directory"])
    (directory / "rows").mkdir(parents=True, exist_ok=True)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .config("spark.local.dir", str(directory / "tmp"))
        .config("spark.sql.shuffle.partitions", "2")
        .config(map=asked["spark"])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for run in asked["runs"]:
        if run.get("move") and (directory / "checkpoint").exists():
            to_connector(directory / "checkpoint", force=True)
        if "fails" in run:
            _check_failure(spark, asked["servers"], directory, run)
        else:
            _query(spark, asked["servers"], directory, run)
    spark.stop()


def _check_failure(spark: SparkSession, servers: str, directory: Path, run: dict[str, Any]) -> None:
    planned = sorted(os.listdir(directory / "checkpoint/offsets"))
    with pytest.raises(StreamingQueryException, match=run["fails"]):
        _query(spark, servers, directory, run)
    assert planned == sorted(os.listdir(directory / "checkpoint/offsets"))


def _query(spark: SparkSession, servers: str, directory: Path, run: dict[str, Any]) -> None:
    rows = [
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .options(**run["options"])
        .load()
        .selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        for source, topic in run["sources"]
    ]
    frame, mode = reduce(DataFrame.union, rows), "append"
    if run.get("counts"):
        frame, mode = frame.groupBy("topic", "partition").count(), "update"
    writer = (
        frame.writeStream.outputMode(mode)
        .foreachBatch(_sink(directory / "rows", run.get("die")))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
    )
    for _ in range(_RUNS_MAX):
        repeats = _is_pending(directory / "checkpoint")
        query = writer.start()
        query.awaitTermination()
        if has(Feature.LIMITED_AVAILABLE_NOW) or not (repeats or _is_full(query, run)):
            break


def _is_pending(checkpoint: Path) -> bool:
    """Returns whether a run repeats a micro-batch first. Some versions of Spark end with it."""
    return batches(checkpoint, "offsets") != batches(checkpoint, "commits")


def _is_full(query: StreamingQuery, run: dict[str, Any]) -> bool:
    """Returns whether the last micro-batch was limited. Some versions of Spark end with it."""
    last = query.lastProgress
    return last is not None and last["numInputRows"] >= int(run["options"]["maxOffsetsPerTrigger"])


def _sink(rows: Path, die: dict[str, Any] | None) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch``: it writes each micro-batch once, and may die."""
    count = 0

    def write(frame: DataFrame, batch: int) -> None:
        nonlocal count
        count += 1
        text = json.dumps(sorted(map(list, frame.collect())))
        now = die is not None and count == die["in"]
        if now and die["when"] == "before":
            _kill()
        file = rows / str(batch)
        if file.exists() and file.read_text() != text:
            raise AssertionError(f"batch {batch} has other rows than before: {text}")
        hidden = file.with_suffix(".new")
        hidden.write_text(text)
        hidden.replace(file)
        if now:
            _kill()

    return write


def _kill() -> None:
    """End the JVM, so that Spark writes nothing more, and then this process."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
