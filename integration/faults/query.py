"""The query that ``test_kill`` kills: kfetch into a Delta table, in a process of its own.

    python -m integration.faults.query '{"servers": …, "topic": …, "directory": …, "trigger": {…}}'

``spark`` and ``options`` add settings of Spark and of the source. Below ``directory``: ``table``,
``checkpoint``, and ``started``, which appears when a task has begun to deliver. No task goes on
before ``go`` is there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from kfetch_jobs.jvm.spark import session

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS_PER_TRIGGER = 100_000
_SECRET = "spark.hadoop.fs.s3a.secret.key"


def main(asked: dict[str, Any]) -> None:
    """Run until the trigger ends the query, or somebody the process."""
    directory = Path(asked["directory"])
    settings = {"spark.master": "local[2]", _SECRET: "hunter22", **asked.get("spark", {})}
    with session(settings, name="killed", log=directory / "log") as spark:
        _check_secret(spark.sparkContext.getConf().get(_SECRET))
        source = (
            spark.readStream.format("kfetch")
            .option("kafka.bootstrap.servers", asked["servers"])
            .option("subscribe", asked["topic"])
            .option("startingOffsets", "latest")
            .option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
            .options(**asked.get("options", {}))
            .load()
            .selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
        )
        query = (
            source.mapInArrow(gate(str(directory)), source.schema)
            .writeStream.format("delta")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(**asked["trigger"])
            .start(str(directory / "table"))
        )
        query.awaitTermination()


def _check_secret(value: str | None) -> None:
    """Spark has the setting, and no process has it among its arguments, which all users see."""
    assert value == "hunter22", value
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            assert "hunter22" not in " ".join(process.cmdline()), process


def gate(directory: str) -> Any:
    """A function for ``mapInArrow`` that holds a task's rows back until ``go`` is there."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (Path(directory) / "started").touch()
            while not (Path(directory) / "go").exists():
                time.sleep(0.05)
            yield batch

    return hold


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
