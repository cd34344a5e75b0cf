"""Micro-batches merged into Delta: by keys, once each, and never back to an older row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from integration.running.project import job
from integration.running.sinks import (
    MERGE,
    drain,
    forget_last_commit,
    produce,
    rows,
)
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink, merging
from kfetch_jobs.run.spark_errors import job_error
from kfetch_jobs.run.tables import unfenced

pytestmark = pytest.mark.integration

_CLICKS = {
    "id": "BIGINT",
    "page": "STRING",
    "gone": "BOOLEAN",
    "partition": "INT",
    "offset": "BIGINT",
}


def test_a_merge_is_done_once(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The latest row of a key counts, a deleted one is gone, and a batch that comes again is
    passed over: it would bring back what somebody else has deleted meanwhile."""
    name = topic(1)
    made = job(tmp_path, kafka, MERGE.format(topic=name))
    produce(
        kafka,
        name,
        b'{"id": 1, "page": "/old"}',
        b'{"id": 1, "page": "/new"}',
        b'{"page": "/no key"}',
        b'{"id": 2, "page": "/two"}',
        b'{"id": 3, "page": "/three", "gone": true}',
    )
    drain(spark, made)
    produce(kafka, name, b'{"id": 2, "gone": true}', b'{"page": "/none"}', b'{"id": 4}')
    drain(spark, made)
    found = {row.id: row.page for row in rows(spark, tmp_path / "table")}
    assert {1: "/new", None: "/none", 4: None} == found

    spark.sql(f"DELETE FROM delta.`{tmp_path}/table` WHERE id = 4")
    forget_last_commit(made)
    drain(spark, made)

    assert {1, None} == {row.id for row in rows(spark, tmp_path / "table")}
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def merged(spark: SparkSession, made: Job, columns: str, *batches: list[tuple[Any, ...]]) -> None:
    """Merge micro-batches of rows, without a query."""
    for number, batch in enumerate(batches):
        merging.merge(made, spark.createDataFrame(batch, columns), "query", number)


def test_a_merge_never_goes_back(kafka: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """A row of a later micro-batch that is older by ``latestBy`` neither overwrites nor deletes.
    The columns count one after the other, NULL is older than all else, and an equal row counts."""
    made = job(tmp_path, kafka, MERGE.format(topic="t").replace("By: offset", "By: [at, nr]"))
    table = "id BIGINT, page STRING, at DECIMAL(10, 2), nr BIGINT, gone BOOLEAN"
    spark.sql(f"CREATE TABLE delta.`{made.target}` ({table}) USING delta")  # of wider types
    columns = "id BIGINT, page STRING, at BIGINT, nr INT, gone BOOLEAN"
    merged(
        spark,
        made,
        columns,
        [(n, "first", 5, 5, None) for n in range(8)] + [(8, "first", None, 5, None)],
        [
            (0, "older", 4, 9, None),
            (1, "older", 5, 4, None),
            (2, "equal", 5, 5, None),
            (3, "newer", 6, 0, None),
            (4, "null", None, 9, None),
            (5, "older", 4, 9, True),
            (6, "newer", 6, 0, True),
            (7, "newer", 5, 6, True),
            (8, "null", None, 5, None),
        ],
    )
    merged_rows = {row.id: row.page for row in rows(spark, tmp_path / "table")}
    assert {0: "first", 1: "first", 2: "equal", 3: "newer", 4: "first", 5: "first", 8: "null"} == (
        merged_rows
    )


@pytest.mark.parametrize("batches", [1, 2])
def test_offsets_of_two_partitions_have_no_order(
    kafka: Cluster, spark: SparkSession, tmp_path: Path, batches: int
) -> None:
    """A key in two partitions ends the job, within a micro-batch and between two of them."""
    made = job(tmp_path, kafka, MERGE.format(topic="t"))
    columns = "id BIGINT, page STRING, partition INT, offset BIGINT, gone BOOLEAN"
    two = [[(1, "a", 0, 9, None)], [(1, "b", 1, 3, None), (2, "c", 1, 4, None)]]
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        merged(spark, made, columns, *(two if batches == 2 else [two[0] + two[1]]))

    error = job_error(raised.value, "job one failed", tmp_path / "spark.log")
    assert isinstance(error, ConfigError)
    assert "cannot order the rows of a key by offset: they are of several partitions" in str(error)


@pytest.mark.long
def test_a_table_without_the_columns_of_latest_by(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing would order its rows: refused before the start, with the way out. With mergeSchema
    the table gets the column, and its rows count as the oldest."""
    name = topic(1)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` (id BIGINT, page STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/table` VALUES (1, 'old'), (2, 'old')")
    text = MERGE.format(topic=name)
    with pytest.raises(ConfigError, match=r"one\.yml:7: .*table has no column gone and offset"):
        delta_sink.start(spark, job(tmp_path, kafka, text), unfenced)

    produce(kafka, name, b'{"id": 1, "page": "/new"}')
    drain(
        spark, job(tmp_path, kafka, text.replace("sink:", "sink:\n  options: {mergeSchema: true}"))
    )
    assert {1: "/new", 2: "old"} == {row.id: row.page for row in rows(spark, tmp_path / "table")}


@pytest.mark.long
def test_columns_of_others_beside_delete_when(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """With ``deleteWhen``, a merge writes the transform's columns alone. The table may have more:
    somebody's notes, and a generated column."""
    name, table = topic(1), f"{tmp_path}/table"
    creation = DeltaTable.create(spark).location(table).addColumn("note", "STRING")
    for column, kind in _CLICKS.items():
        creation = creation.addColumn(column, kind)
    creation.addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2").execute()
    spark.sql(f"INSERT INTO delta.`{table}` (id, note) VALUES (1, 'kept')")
    produce(kafka, name, b'{"id": 1, "page": "/new"}', b'{"id": 2, "page": "/two"}')
    drain(spark, job(tmp_path, kafka, MERGE.format(topic=name)))

    found = {(row.id, row.page, row.note, row.twice) for row in rows(spark, tmp_path / "table")}
    assert {(1, "/new", "kept", 2), (2, "/two", None, 4)} == found


@pytest.mark.long
def test_a_new_checkpoint_is_a_new_writer(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """With a new checkpoint the batches count from 0 again, and none is taken for an old one."""
    name = topic(1)
    produce(kafka, name, b'{"id": 1, "page": "/a"}')
    drain(spark, job(tmp_path, kafka, MERGE.format(topic=name) + "checkpoint: first\n"))
    produce(kafka, name, b'{"id": 1, "page": "/b"}')
    drain(spark, job(tmp_path, kafka, MERGE.format(topic=name) + "checkpoint: second\n"))

    assert ["/b"] == [row.page for row in rows(spark, tmp_path / "table")]
