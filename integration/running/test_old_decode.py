"""A job with ``source.decode``, which Spark decoded in the last release and kfetch decodes now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from integration.running.project import job
from integration.running.sinks import drain, forget_last_commit, produce, rows, written
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.dead_letter_frames import LETTER
from kfetch_jobs.run.spark_errors import job_error
from kfetch_jobs.run.tables import unfenced

pytestmark = [pytest.mark.integration, pytest.mark.long]

FIELDS = "id BIGINT, page STRING, at TIMESTAMP, tags ARRAY<STRING>, s STRUCT<a: INT, b: DOUBLE>"
JOB = """\
source:
  cluster: main
  subscribe: {topic}
  decode: {{fields: '{fields}'{into}}}
  options: {{startingOffsets: earliest}}
{transform}sink:
  path: table
{sink}trigger: availableNow
"""
DEAD = "  deadLetters: {path: dead}\n"
MERGE = "  mode: merge\n  keys: id\n  latestBy: number\n"
VALUES = (
    b'{"id": 1, "page": "/p", "at": "2024-05-01T12:00:00", "tags": ["a", null], "more": {"x": []}}',
    b'{"id": 2, "s": {"a": 3, "b": 1.5}, "at": "2024-05-01T12:00:00Z"}',
    b'{"id": 1, "page": "/q", "tags": []}',
    None,
    b"{}",
)
BAD = (b'{"id": "x", "page": "/p"}', b"no json", b"null", b"[]", b'{"id": 7, "s": {"a": "b"}}')
PLAIN = 'source.select("event.*", "partition", "offset")'
DISTINCT = 'source.select("event", "event.id").dropDuplicates()'
COUNTED = 'source.groupBy("event.id").agg(f.count("*").alias("number"))'
WINDOWS = (
    'source.withWatermark("timestamp", "0 seconds")'
    '.groupBy(f.window("timestamp", "1 millisecond"), "event").agg(f.count("*").alias("number"))'
)
CODE = "from pyspark.sql import functions as f\n\ndef clicks(source):\n    return {}\n"


def last_release(spark: SparkSession, made: Job, columns: object = ()) -> dict[str, DataFrame]:
    """The streams of the last release: ``from_json`` decodes, and shows what is broken."""
    source = made.file.source
    assert source is not None
    assert source.decode is not None
    servers = {"kafka.bootstrap.servers": made.clusters["main"]["bootstrap.servers"]}
    options = servers | source.strategy() | source.options
    frame = spark.readStream.format("kfetch").options(**options).load()
    fields = StructType.fromDDL(source.decode.fields).fields
    schema = StructType([*fields, StructField("_corrupt", StringType())])
    text = f.col("value").cast("string")
    parsed = f.from_json(text, schema, {"columnNameOfCorruptRecord": "_corrupt"})
    frame, struct = frame.withColumn("_parsed", parsed), f.col("_parsed")
    broken = f.col("value").isNotNull() & (struct.isNull() | struct["_corrupt"].isNotNull())
    event = struct.dropFields("_corrupt")
    if made.dead_letters is None:
        event = f.when(broken, f.raise_error(f.lit("cannot decode"))).otherwise(event)
    else:
        letter = f.struct(f.lit("value is not JSON").alias("error"), "key", "value")
        frame = frame.withColumn(LETTER, f.when(broken, letter))
    return {"source": frame.withColumn(source.decode.into, event).drop("_parsed")}


def made_in(within: Path, side: str, kafka: Cluster, text: str, code: str) -> Job:
    """A job in a directory of its own. Python keeps modules, so each has another name."""
    directory = within / side / f"{within.name}_{side}"
    directory.mkdir(parents=True)
    name = written(directory, CODE.format(code)) if code else ""
    transform = f"transform: {name}:clicks\n" if code else ""
    return job(directory, kafka, text.replace("{transform}", transform))


@pytest.mark.parametrize(
    ("code", "sink", "values"),
    [
        (PLAIN, "", VALUES),
        (PLAIN, DEAD, VALUES + BAD),
        (DISTINCT, "", VALUES),
        (DISTINCT, DEAD, VALUES + BAD),
        (COUNTED, DEAD + MERGE, VALUES + BAD),
        (WINDOWS, DEAD, VALUES + BAD),
    ],
)
def test_a_job_goes_on(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    sink: str,
    values: tuple[bytes | None, ...],
) -> None:
    """From the checkpoint of the last release, also one with state and one with a micro-batch that
    comes again. Both tables have the rows that the last release would have written."""
    name = topic(1)
    text = JOB.replace("{transform}", "{{transform}}")
    text = text.format(topic=name, fields=FIELDS, into="", sink=sink)
    upgraded, stayed = (made_in(tmp_path, side, kafka, text, code) for side in ("new", "old"))
    produce(kafka, name, *values)
    with monkeypatch.context() as old:
        old.setattr(delta_sink, "source_frames", last_release)
        for made in (upgraded, stayed):
            drain(spark, made)
        produce(kafka, name, *values[::-1])
        drain(spark, stayed)
        produce(kafka, name, values[0])
        drain(spark, stayed)
    forget_last_commit(upgraded)
    drain(spark, upgraded)

    for table in ("table", *(["dead"] if DEAD in sink else [])):
        found, expected = (contents(spark, made, table) for made in (upgraded, stayed))
        assert expected
        assert expected == found


def contents(spark: SparkSession, made: Job, table: str) -> list[str]:
    """The rows of a table, in some order. The sentence of an error may be another one."""
    path = made.document.path.parents[1] / table
    return sorted(str(row.asDict() | {"error": ""}) for row in rows(spark, path))


def test_a_value_that_does_not_fit(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Without dead letters it fails the job, which does not start again."""
    name = topic(1)
    text = JOB.format(topic=name, fields=FIELDS, into="", transform="", sink="")
    made = job(tmp_path, kafka, text)
    produce(kafka, name, VALUES[0], BAD[0])
    with pytest.raises(Exception, match="STREAM_FAILED") as failure:
        drain(spark, made)

    error = job_error(failure.value, "job one failed", tmp_path / "log", made.user_sentence)
    assert isinstance(error, ConfigError)
    assert (
        f"the value of the record at offset 1 of {name}-0 does not fit decode.fields: field id is "
        "no BIGINT, at byte 9: "
    ) in error.message
    assert "or give sink.deadLetters a table (see" in error.message


@pytest.mark.parametrize(
    ("code", "before"),
    [
        ('source.select("event.id", "value")', False),
        ('source.selectExpr("string(value)")', False),
        ('source.select("offset", source.value)', False),
        ("source", True),
        ("", True),
    ],
)
def test_a_transform_that_needs_the_bytes(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    before: bool,
) -> None:
    """One error says that they are gone, and what to do. They do not become null in silence."""
    name = topic(1)
    text = JOB.replace("{transform}", "{{transform}}")
    text = text.format(topic=name, fields=FIELDS, into="", sink="")
    made = made_in(tmp_path, "a", kafka, text, code)
    produce(kafka, name, VALUES[0])
    if before:
        with monkeypatch.context() as old:
            old.setattr(delta_sink, "source_frames", last_release)
            drain(spark, made)

    with pytest.raises(
        ConfigError, match=r"with decode, the view has no column value, .*from_json"
    ):
        delta_sink.start(spark, made, unfenced)


def test_a_name_of_its_own(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The struct may take the place of the bytes, or of another column."""
    for into in ("value", "key", "click"):
        text = JOB.format(
            topic=topic(1), fields="id BIGINT", into=f", into: {into}", transform="", sink=""
        )
        (tmp_path / into).mkdir()
        made = job(tmp_path / into, kafka, text)
        schema = delta_sink._frames(spark, made)[1].schema

        assert "struct<id:bigint>" == schema[into].dataType.simpleString()
        assert ("value" in schema.names) is (into == "value")
