"""Jobs whose tasks write the table's files: the rows of Spark's way, each once, also if the ways
change. delta-rs and DuckDB read the tables."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from integration.delta.readers import by_duckdb, orphans, places
from integration.delta.test_tables import rows_of
from integration.delta_columns import column
from integration.records import producer
from integration.running.commands import Project
from integration.running.project import job
from integration.running.sinks import drain, forget_last_commit, produce
from integration.running.test_sinks import drain_watched
from integration.streams import PATIENCE_S
from kfetch.delta.copying import TableCopy
from kfetch.errors import LeaseLost
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.straight import chosen

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options:
    startingOffsets: earliest
    valueFormat: json
    valueSchema: 'id BIGINT, page STRING, s STRUCT<at: TIMESTAMP, price: DECIMAL(8,2)>'
    valueTimeZone: UTC
{transform}sink:
  path: table
  write: {write}
{sink}trigger: availableNow
"""
SELECT = (
    "transform:\n  sql: SELECT value.id, value.s.price AS cost, value.s, partition, offset, "
    "date(timestamp) AS day, hour(value.s.at) AS hour FROM source\n"
)
BY_DAY = "  partitionBy: [day, hour]\n"


class Topic:
    """A topic of two partitions, the records sent to it, and a job that copies it."""

    def __init__(self, kafka: Cluster, name: str, directory: Path) -> None:
        self.kafka, self.name, self.directory = kafka, name, directory
        self.sent = 0

    def produce(self, count: int) -> None:
        """Records by turns to both partitions: some without fields, some without a value."""
        with producer(self.kafka, linger_ms=5) as sender:
            for number in range(self.sent, self.sent + count):
                moment = datetime(2026, 6, 1 + number % 3, 23, 30, tzinfo=UTC)
                times = f'"at": "2026-06-0{1 + number % 2}T0{number % 7}:00:00Z", "price": 1.5'
                text = f'{{"id": {number}, "page": "/{number % 5}", "s": {{{times}}}}}'
                value = [text.encode(), b"{}", None][number % 10 if number % 10 < 3 else 0]
                when = int(moment.timestamp() * 1000)
                sender.send(self.name, value, key=b"k", partition=number % 2, timestamp_ms=when)
        self.sent += count

    def job(
        self, write: str, transform: str = SELECT, sink: str = BY_DAY, directory: str = "."
    ) -> Job:
        """The job, which writes in this way."""
        text = JOB.format(topic=self.name, write=write, transform=transform, sink=sink)
        return job(self.directory / directory, self.kafka, text)


@pytest.fixture
def records(kafka: Cluster, topic: Callable[..., str], tmp_path: Path) -> Topic:
    return Topic(kafka, topic(2, retention_ms=-1), tmp_path)


def expected(count: int) -> list[tuple[int, int]]:
    """The places of so many records, by turns in two partitions."""
    return sorted((number % 2, number // 2) for number in range(count))


def test_ways_by_turns(records: Topic, spark: SparkSession) -> None:
    """One checkpoint and one table. Each run goes on where the other way has stopped, also with a
    micro-batch that the other has committed and Spark's checkpoint has not. Progress counts
    records."""
    table = records.directory / "table"
    counted = []
    for write in ("straight", "spark", "auto"):
        records.produce(40)
        reports = drain_watched(spark, made := records.job(write))
        counted += [(one.rows, one.lag) for one in reports if one.rows]
        forget_last_commit(made)
        assert expected(records.sent) == places(table)

    assert [(40, 0)] * 3 == counted


@pytest.mark.long
@pytest.mark.parametrize("write", ["spark", "straight"])
def test_a_kill_before_the_commit(records: Topic, spark: SparkSession, write: str) -> None:
    """The files are written, and no commit names them. The next run writes each record once, in
    either way."""
    table = records.directory / "table"
    records.produce(40)
    drain(spark, records.job("straight"))
    records.produce(40)
    command = [sys.executable, "-m", "integration.running.killed_write"]
    killed = subprocess.run(
        [*command, str(records.directory), "files"], timeout=PATIENCE_S, check=False
    )
    assert -signal.SIGKILL == killed.returncode
    assert (expected(40), True) == (places(table), bool(orphans(table)))
    drain(spark, records.job(write))

    assert expected(80) == places(table)


def test_the_table_is_that_of_spark(records: Topic, spark: SparkSession) -> None:
    """The same columns in the same order, the same partitions, and row by row the same values."""
    records.produce(120)
    tables = []
    for write in ("straight", "spark"):
        drain(spark, records.job(write, directory=write))
        tables.append(spark.read.format("delta").load(str(records.directory / write / "table")))
    ours, theirs = tables

    assert theirs.schema == ours.schema
    assert rows_of(theirs) == rows_of(ours)
    logs = [DeltaTable(str(records.directory / way / "table")) for way in ("straight", "spark")]
    assert ["day", "hour"] == logs[0].metadata().partition_columns
    partitions = [{frozenset(one.items()) for one in log.partitions()} for log in logs]
    assert partitions[1] == partitions[0]
    query = 'SELECT id, cost, s.price, "offset" FROM files ORDER BY partition, "offset"'
    found = [by_duckdb(records.directory / way / "table", query) for way in ("straight", "spark")]
    assert found[1] == found[0]
    assert 120 == len(found[0])


@pytest.mark.parametrize(
    ("select", "straight"),
    [
        ("*", True),
        ("value.*, source.offset AS o", True),
        ("s.value.id ID, s.value.s.at FROM source s", True),
        ("OFFSET, partition AS `Part`", True),
        ("value.id, to_date(timestamp) day, year(timestamp) hour", True),
        ("value.id, CAST(timestamp AS DATE) day, month(value.s.at) AS hour", True),
        ("value.id, value.s.price AS day, offset AS hour", False),
        ("value.id, date(timestamp) AS day, hour(timestamp) + 1 AS hour", False),
        ("value.id, date(value.page) AS day, hour(timestamp) AS hour", False),
        ("upper(value.page) AS id", False),
    ],
)
def test_spark_agrees(records: Topic, spark: SparkSession, select: str, straight: bool) -> None:
    """Spark's own plan has the columns that kfetch read from the SQL, with the same types, and
    nothing else. What needs Spark is sent through it."""
    select = select if "FROM" in select else f"{select} FROM source"
    sink = BY_DAY if "hour" in select else ""
    made = records.job("auto", f"transform:\n  sql: 'SELECT {select}'\n", sink)
    _, result, columns = delta_sink._frames(spark, made)

    assert straight is isinstance(chosen(made, result, columns), TableCopy)


def test_what_the_table_decides(records: Topic, spark: SparkSession) -> None:
    """With a constraint, ``auto`` goes through Spark. ``straight`` is an error with its line."""
    records.produce(20)
    drain(spark, records.job("auto"))
    spark.sql(f"ALTER TABLE delta.`{records.directory}/table` ADD CONSTRAINT o CHECK (offset >= 0)")
    records.produce(20)
    drain(spark, records.job("auto"))
    assert expected(40) == places(records.directory / "table")

    with pytest.raises(ConfigError, match=r"one\.yml:1\d: sink\.write .*has the constraint o"):
        drain(spark, records.job("straight"))


def test_a_lost_lease(records: Topic, spark: SparkSession) -> None:
    """The files are written, and no commit names them."""
    records.produce(20)
    asked = []

    def check() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise LeaseLost("somebody else writes")

    query = delta_sink.start(spark, records.job("straight"), check)
    with pytest.raises(Exception, match="somebody else writes"):
        query.awaitTermination(PATIENCE_S)

    assert 2 == len(asked)
    assert [] == places(records.directory / "table")
    assert list(records.directory.glob("table/day=*/*/part-*"))


@pytest.mark.long
def test_commands(records: Topic) -> None:
    """What people see: the plan's way, and the rows of a run with its lease."""
    records.produce(40)
    records.job("straight")
    project = Project(records.directory, records.kafka)

    assert "written straight: tasks write the table's files" in project.kfetch("plan", "one")
    done = project.run("run", "one")
    assert 0 == done.returncode, done.stderr
    assert "batch 0: 40 records in " in done.stderr
    assert "ended: 1 micro-batch, 40 records, 0 behind" in done.stderr
    assert expected(40) == places(records.directory / "table")


LETTERS = """\
source:
  cluster: main
  subscribe: {topic}
  options:
    startingOffsets: earliest
    valueFormat: json
    valueSchema: id BIGINT, amount {type}
transform: {{sql: "SELECT value.amount, partition, offset FROM source"}}
sink: {{path: table, write: straight, deadLetters: {{path: dead}}}}
trigger: availableNow
"""
_VALUES = [b"not json", b'{"id": 1, "amount": 12}', b'{"id": 2, "amount": "abc"}', None]


def test_dead_letters(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """They commit with their rows. If a run dies between the two commits, and the next one decodes
    in another way, it goes through Spark: each record is in one of the two tables. Later runs are
    straight again."""
    name, rows, dead = topic(1), tmp_path / "table", tmp_path / "dead"
    produce(kafka, name, *_VALUES)
    job(tmp_path, kafka, LETTERS.format(topic=name, type="INT"))
    command = [sys.executable, "-m", "integration.running.killed_write", str(tmp_path), "first"]
    killed = subprocess.run(command, timeout=PATIENCE_S, check=False)
    assert -signal.SIGKILL == killed.returncode
    assert ([0, 2], []) == (column(dead, "offset"), column(rows, "offset"))
    shutil.rmtree(rows)  # its column amount is an INT

    made = job(tmp_path, kafka, LETTERS.format(topic=name, type="STRING"))
    drain(spark, made)
    assert ([0], [1, 2, 3]) == (sorted(column(dead, "offset")), sorted(column(rows, "offset")))
    produce(kafka, name, b'{"id": 3}', b"[")
    (told,) = drain_watched(spark, made)
    assert (2, 1) == (told.rows, told.dead_letters)
    assert told.dead_letter.startswith(f"{name}-0, offset 5: ")
    forget_last_commit(made)
    (again,) = drain_watched(spark, made)

    assert (0, 0) == (again.rows, again.dead_letters)
    assert ([0, 5], [1, 2, 3, 4]) == (
        sorted(column(dead, "offset")),
        sorted(column(rows, "offset")),
    )
    assert [(b"[", b"k")] == by_duckdb(dead, 'SELECT value, key FROM files WHERE "offset" = 5')
