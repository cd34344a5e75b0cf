"""The query that ``test_windows`` kills: windows over typed values, into Delta.

    python -m integration.formats.windows '{"servers": …, "topic": …, "directory": …, "trigger": …}'

Below ``directory``: ``table`` and ``checkpoint``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from kfetch_jobs.jvm.spark import session

SCHEMA = "id BIGINT, at TIMESTAMP"
WINDOW_S = 10
OFFSETS_PER_TRIGGER = 20_000
_SETTINGS = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


def main(asked: dict[str, Any]) -> None:
    """Run until the trigger ends the query, or somebody the process."""
    directory = Path(asked["directory"])
    with session(_SETTINGS, name="windows", log=directory / "log") as spark:
        rows = (
            spark.readStream.format("kfetch")
            .option("kafka.bootstrap.servers", asked["servers"])
            .option("subscribe", asked["topic"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
            .option("valueFormat", "json")
            .option("valueSchema", SCHEMA)
            .option("valueTimeZone", "UTC")
            .option("valueFields", "flat")
            .load()
        )
        windows = (
            rows.withWatermark("at", f"{WINDOW_S} seconds")
            .groupBy(F.window("at", f"{WINDOW_S} seconds"))
            .agg(F.count("id").alias("records"), F.sum("id").alias("ids"))
            .select(F.unix_timestamp("window.start").alias("start"), "records", "ids")
        )
        query = (
            windows.writeStream.format("delta")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(**asked["trigger"])
            .start(str(directory / "table"))
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
