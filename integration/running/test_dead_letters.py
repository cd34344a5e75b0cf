"""Dead letters of jobs beside transforms with state, and dead letters that the source gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from integration.running.project import job
from integration.running.sinks import drain, forget_last_commit, produce, rows, written
from integration.running.test_sinks import drain_watched
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.tables import unfenced

# test_sinks has the dead letters of a transform without state.
pytestmark = [pytest.mark.integration, pytest.mark.long]

DECODED = """\
  decode:
    fields: id BIGINT, page STRING
    into: value
  options: {startingOffsets: earliest}
"""
TYPED = """\
  options:
    startingOffsets: earliest
    valueFormat: json
    valueSchema: id BIGINT, page STRING
"""
JOB = """\
source:
  cluster: main
  subscribe: {topic}
{source}transform: {code}:clicks
sink:
  path: table
  deadLetters: {{path: dead}}
{sink}trigger: availableNow
"""
MERGE = "  mode: merge\n  keys: id\n  latestBy: number\n"
PLAIN = 'source.select("value.*", "offset")'
DISTINCT = 'source.select("value.id", "value.page").dropDuplicates(["id"])'
COUNTED = 'source.groupBy("value.id").agg(f.count("*").alias("number"))'
WINDOWS = (
    'source.withWatermark("timestamp", "0 seconds")'
    '.groupBy(f.window("timestamp", "1 millisecond"), "value.id").agg(f.count("*").alias("number"))'
)
CODE = """\
from pyspark.sql import functions as f

def clicks(source):
    return {}
"""
BAD = b'{"id": "x"}'


def good(number: int) -> bytes:
    return b'{"id": %d, "page": "/p"}' % number


@pytest.mark.parametrize(
    ("source", "transform", "sink", "expected"),
    [
        (TYPED, DISTINCT, "", [(1,), (2,), (3,)]),
        (TYPED, PLAIN, "", [(1,), (1,), (1,), (2,), (3,)]),
        (DECODED, DISTINCT, "", [(1,), (2,), (3,)]),
        (TYPED, COUNTED, MERGE, [(1, 3), (2, 1), (3, 1)]),
        (DECODED, COUNTED, MERGE, [(1, 3), (2, 1), (3, 1)]),
    ],
)
def test_rows_and_dead_letters_are_written_once(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    transform: str,
    sink: str,
    expected: list[tuple[int, ...]],
) -> None:
    """Also beside a transform with state, whose state lasts over micro-batches. A batch that comes
    again adds nothing to either table. Its line counts each record once."""
    name = topic(1)
    code = written(tmp_path, CODE.format(transform))
    made = job(tmp_path, kafka, JOB.format(topic=name, source=source, code=code, sink=sink))
    produce(kafka, name, good(1), BAD, good(2), good(1), None if "dropDup" in transform else BAD)
    reports = drain_watched(spark, made)
    produce(kafka, name, good(1), b"no json", good(3))
    drain(spark, made)
    forget_last_commit(made)
    reports += drain_watched(spark, made)

    table = rows(spark, tmp_path / "table")
    named = ("id", "number") if sink else ("id",)
    found = sorted(tuple(row[one] for one in named) for row in table if row.id is not None)
    assert expected == found
    dead = sorted(rows(spark, tmp_path / "dead"), key=lambda row: row.offset)
    letters = [(row.topic, row.partition, row.offset, bytes(row.value)) for row in dead]
    first = [(name, 0, 1, BAD)] + ([(name, 0, 4, BAD)] if "dropDup" not in transform else [])
    assert [*first, (name, 0, 6, b"no json")] == letters
    assert {b"k"} == {bytes(row.key) for row in dead}
    if source is TYPED:
        assert (
            "the value does not fit valueSchema: field id is no BIGINT, at byte 9" == dead[0].error
        )
    data = [one for one in reports if one.rows]
    assert [(5, len(first)), (3, 1)] == [(one.rows, one.dead_letters) for one in data]
    assert data[-1].dead_letter.startswith(f"{name}-0, offset 6: ")


def test_windows(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """A window with a watermark counts good records only, and closes beside dead letters. What
    comes later than the watermark is counted."""
    name = topic(1)
    code = written(tmp_path, CODE.format(WINDOWS))
    made = job(tmp_path, kafka, JOB.format(topic=name, source=TYPED, code=code, sink=""))
    produce(kafka, name, good(1), BAD, good(2))
    drain(spark, made)
    produce(kafka, name, good(3), BAD)
    drain(spark, made)
    produce(kafka, name, good(4))
    drain(spark, made)
    late = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in (5, 6, 7):
        late.send(name, good(number), partition=0, timestamp_ms=1)
    late.close()
    assert 3 == sum(batch.late_rows for batch in drain_watched(spark, made))

    found = sorted((row.id, row.number) for row in rows(spark, tmp_path / "table"))
    assert [(1, 1), (2, 1), (3, 1)] == found[:3]
    assert [1, 4] == sorted(row.offset for row in rows(spark, tmp_path / "dead"))


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (COUNTED, "without watermark"),
        ('source.join(source.groupBy("offset").count(), "offset")', "one.yml"),
    ],
)
def test_what_spark_refuses(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    transform: str,
    sentence: str,
) -> None:
    """Spark's own rules for streams with state apply. Its sentence comes with the line."""
    code = written(tmp_path, CODE.format(transform))
    text = JOB.format(topic=topic(1), source=TYPED, code=code, sink="")
    with pytest.raises(ConfigError, match=sentence):
        delta_sink.start(spark, job(tmp_path, kafka, text), unfenced)
