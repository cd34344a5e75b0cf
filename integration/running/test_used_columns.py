"""Jobs read the columns that their SQL uses, and never give other rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.running.project import job
from integration.running.sinks import drain, produce, rows
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink

pytestmark = [pytest.mark.integration, pytest.mark.long]

JOB = """\
source:
  cluster: main
  subscribe: {topic}
{source}transform:
  sql: {sql}
sink:
  path: table
{sink}trigger: availableNow
"""
RAW = "  options: {startingOffsets: earliest}\n"
TYPED = "  options: {startingOffsets: earliest, valueFormat: json, valueSchema: id BIGINT}\n"
DECODED = "  decode: {fields: id BIGINT}\n" + RAW
CHOSEN = "  options: {columns: 'value, offset'}\n"
DEAD = "  deadLetters: {path: dead}\n"
PLACE = ["topic", "partition", "offset", "timestamp"]
ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.mark.parametrize(
    ("source", "sink", "sql", "columns"),
    [
        (RAW, "", "SELECT value, offset FROM source", ["value", "offset"]),
        (RAW, "", "SELECT OFFSET + 1 AS n FROM source WHERE Key IS NULL", ["key", "offset"]),
        (RAW, "", "SELECT 1 AS one FROM source", ["offset"]),
        (RAW, "", "SELECT * FROM source", ALL),
        (RAW, "", "SELECT offset FROM (SELECT * FROM source)", ALL),
        (RAW, "", "SELECT * EXCEPT (key) FROM source", ALL),
        (RAW, "", "WITH a AS (SELECT value, topic FROM source) SELECT topic FROM a", ALL[1:3]),
        (RAW, "", "SELECT a.offset FROM source a", ["offset"]),
        (RAW, "", "SELECT explode(split(string(value), ',')) AS part FROM source", ["value"]),
        (RAW, "", "SELECT key FROM source UNION ALL SELECT value FROM source", ALL),
        (RAW, "", "SELECT key, (SELECT max(id) FROM range(3)) AS m FROM source", ALL),
        (RAW, "", "SELECT DISTINCT key FROM source", ["key"]),
        (TYPED, "", "SELECT offset FROM source", ["value", "offset"]),
        (TYPED, DEAD, "SELECT value.id FROM source", ["key", "value", *PLACE]),
        (DECODED, "", "SELECT event.id, offset FROM source", ["offset"]),
        (DECODED, DEAD, "SELECT event.id FROM source", ["key", *PLACE]),
        (DECODED, "", "SELECT * FROM source", [name for name in ALL if name != "value"]),
        (CHOSEN, "", "SELECT value FROM source", ["value", "offset"]),
    ],
)
def test_columns(
    kafka: Cluster,
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    sink: str,
    sql: str,
    columns: list[str],
) -> None:
    """Those that the SQL names, and those that decoding, errors and dead letters need. Whatever is
    unclear keeps all. The result has the same schema."""
    made = job(tmp_path, kafka, JOB.format(topic="t", source=source, sink=sink, sql=sql))
    frames, result, _ = delta_sink._frames(spark, made)

    assert columns == [name for name in frames["source"].columns if name in ALL]
    frames["source"].createOrReplaceTempView("source")
    assert result.schema == spark.sql(sql).schema


def test_rows(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """A job that reads two of seven columns writes the rows of its SQL."""
    name = topic(1)
    produce(kafka, name, b"a", b"b", None)
    sql = "SELECT string(value) AS text, offset FROM source WHERE offset > 0"
    drain(spark, job(tmp_path, kafka, JOB.format(topic=name, source=RAW, sink="", sql=sql)))

    found = sorted((row.offset, row.text) for row in rows(spark, tmp_path / "table"))
    assert [(1, "b"), (2, None)] == found
