"""Micro-batches into Delta: once each, whatever way, also when Spark forgets that it wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from integration.running.project import job
from integration.streams import finish, wait_until
from kfetch_jobs.config import Job
from kfetch_jobs.config.ddl import TYPES
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.metrics.batches import BatchMetrics
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.run import delta_sink, merging
from kfetch_jobs.run.query_recorder import QueryRecorder, query_listener
from kfetch_jobs.run.spark_errors import job_error
from tests.kfetch_jobs.config.test_ddl import RIGHT

pytestmark = pytest.mark.integration

DEAD = """\
source:
  cluster: main
  subscribe: {topic}
  decode:
    fields: id BIGINT, page STRING
  options: {{startingOffsets: earliest}}
transform: {code}:clicks
sink:
  path: table
  partitionBy: page
  deadLetters: {{path: dead}}
trigger: availableNow
"""
CODE = """\
def clicks(source):
    return source.select("event.*", "partition", "offset")
"""
MERGE = """\
source:
  cluster: main
  subscribe: {topic}
  decode:
    fields: id BIGINT, page STRING, gone BOOLEAN
  options: {{startingOffsets: earliest}}
transform:
  sql: SELECT event.*, partition, offset FROM source
sink:
  path: table
  mode: merge
  keys: id
  latestBy: offset
  deleteWhen: gone
trigger: availableNow
"""


def produce(kafka: Cluster, topic: str, *values: bytes | None) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for value in values:
        producer.send(topic, key=b"k", value=value, partition=0)
    producer.close()


def written(directory: Path, code: str) -> str:
    """A module of the project, of another name in each test: Python keeps modules."""
    (directory / f"shop_{directory.name}.py").write_text(code)
    return f"shop_{directory.name}"


def drain(spark: SparkSession, made: Job) -> None:
    """Run the job over what there is."""
    finish(delta_sink.start(spark, made))


def drain_watched(spark: SparkSession, made: Job) -> list[Batch]:
    """The same as a run of its own, which notes its progress; what it told."""
    told: list[Batch] = []
    made.directory.mkdir(parents=True, exist_ok=True)
    watch = QueryRecorder(made, told.append)
    heard = query_listener(watch)
    spark.streams.addListener(heard)
    try:
        finish(delta_sink.start(spark, made, watch.counts))
        # Spark's words come late: the first may be of the end of the query before.
        wait_until(lambda: told and watch.ended.is_set(), what="word of a micro-batch and the end")
    finally:
        spark.streams.removeListener(heard)
    return told


def forget_last_commit(made: Job) -> None:
    """As if the process had died between Delta's commit and Spark's."""
    commits = [
        path for path in (Path(made.checkpoint) / "commits").iterdir() if path.name.isdigit()
    ]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def rows(spark: SparkSession, path: Path) -> list[Row]:
    return spark.read.format("delta").load(str(path)).collect()


def test_dead_letters_and_rows_are_written_once(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is not JSON of the fields goes to the dead letters with its place and bytes, and log,
    progress and metrics say how many; the rest through the project's function to the table; a batch
    that comes again adds nothing to either, and is counted once, by the run that commits it."""
    name = topic(1)
    made = job(tmp_path, kafka, DEAD.format(topic=name, code=written(tmp_path, CODE)))
    wrong = [b"not json", b"", b"\xff\xfe", b'{"id": "x"}', b'["a"]']
    produce(kafka, name, b'{"id": 1, "page": "/a"}', *wrong, b'{"id": 2}', None)
    metrics = BatchMetrics(made.directory.parent)
    told = drain_watched(spark, made)
    produce(kafka, name, b'{"id": 3, "page": "/b"}', b"again not")
    drain(spark, made)  # its process dies before it has told of the batch
    forget_last_commit(made)
    told += drain_watched(spark, made)

    assert [(0, 8, 5), (1, 2, 1)] == [(one.batch, one.rows, one.dead_letters) for one in told]
    assert told == progress.read_batches(progress.progress_path(made.directory))
    metrics.update()
    metrics.add_samples(samples := SampleSet(), made.name)
    counted = {sample.name: sample.value for part in samples.families() for sample in part.samples}
    assert (10, 6) == (
        counted["kfetch_job_rows_total"],
        counted["kfetch_job_dead_letters_total"],
    )
    # A null value is no damage: Kafka's tombstone.
    assert [(1, "/a", 0), (2, None, 6), (3, "/b", 8), (None, None, 7)] == sorted(
        ((row.id, row.page, row.offset) for row in rows(spark, tmp_path / "table")), key=str
    )
    dead = sorted(rows(spark, tmp_path / "dead"), key=lambda row: row.offset)
    assert [*enumerate(wrong, start=1), (9, b"again not")] == [
        (row.offset, bytes(row.value)) for row in dead
    ]
    assert {(name, 0)} == {(row.topic, row.partition) for row in dead}
    assert {"value is not JSON of the fields id BIGINT, page STRING"} == {row.error for row in dead}
    assert "batch 0: 5 records that cannot be decoded are in the dead letters, " in caplog.text


STATIC_JOIN = """\
def clicks(source):
    users = source.sparkSession.read.parquet("{users}")
    known = users.groupBy("id").agg({{"name": "max"}})  # an aggregate of the static side alone
    known = known.withColumnRenamed("max(name)", "name")
    return source.select("event.*", "offset").join(known, "id", "{how}")
"""


def test_a_join_with_a_static_table_beside_dead_letters(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Each row of the stream finds its partner. A join that keeps rows of the static table alone
    would write them with every micro-batch, and is refused."""
    users = tmp_path / "users"
    spark.createDataFrame([(1, "ada"), (7, "bob")], "id BIGINT, name STRING").write.parquet(
        str(users)
    )
    name = topic(1)
    code = written(tmp_path, STATIC_JOIN.format(users=users, how="left"))
    made = job(tmp_path, kafka, DEAD.format(topic=name, code=code))
    produce(kafka, name, b'{"id": 1, "page": "/a"}', b"no json", b'{"id": 2, "page": "/a"}')
    drain(spark, made)

    found = {(row.id, row.name, row.offset) for row in rows(spark, tmp_path / "table")}
    assert {(1, "ada", 0), (2, None, 2)} == found
    assert [1] == [row.offset for row in rows(spark, tmp_path / "dead")]

    (tmp_path / "right").mkdir()
    code = written(tmp_path / "right", STATIC_JOIN.format(users=users, how="right"))
    wrong = job(tmp_path / "right", kafka, DEAD.format(topic=name, code=code))
    with pytest.raises(ConfigError, match=r"needs more \(Join, RightOuter\)"):
        delta_sink.start(spark, wrong)


def test_fields_are_what_spark_says(spark: SparkSession) -> None:
    """Every word that passes for a type without Spark is one, and forms that pass are right."""
    for word in TYPES:
        found = [
            f"a {word}{more}" for more in ("", "(3)", "(4326)", "<INT>", "<INT, INT>", "<a: INT>")
        ]
        assert any(map(_parses, found)), word
    assert [] == [fields for fields in RIGHT if not _parses(fields)]


def _parses(fields: str) -> bool:
    try:
        return isinstance(StructType.fromDDL(fields), StructType)
    except PySparkException:
        return False


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


def test_a_table_without_the_columns_of_latest_by(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing would order its rows: refused before the start, with the way out. With mergeSchema
    the table gets the column, and its rows count as the oldest."""
    name = topic(1)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` (id BIGINT, page STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/table` VALUES (1, 'old'), (2, 'old')")
    text = MERGE.format(topic=name)
    with pytest.raises(ConfigError, match=r"one\.yml:13: .*table has no column offset, by which"):
        delta_sink.start(spark, job(tmp_path, kafka, text))

    produce(kafka, name, b'{"id": 1, "page": "/new"}')
    drain(
        spark, job(tmp_path, kafka, text.replace("sink:", "sink:\n  options: {mergeSchema: true}"))
    )
    assert {1: "/new", 2: "old"} == {row.id: row.page for row in rows(spark, tmp_path / "table")}


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


MISTAKES = [
    (MERGE, "keys: id", "keys: pag", r"one\.yml:12: sink\.keys names pag, .*did you mean page"),
    (MERGE, ", offset", "", r"one\.yml:13: sink\.latestBy names offset, which the transform does"),
    (MERGE, "event.*", "evnt.*", r"one\.yml:7: Cannot resolve `evnt`"),
    (
        DEAD,
        "event.*",
        "evnt",
        r"one\.yml:7: .*shop_\w+\.py:2: AnalysisException: A column, .* with name `evnt`",
    ),
    (
        DEAD,
        'source.select("event.*", "partition", "offset")',
        "1",
        r"shop_\w+:clicks returned int, but",
    ),
    (
        DEAD,
        "return source",
        'return source.groupBy("partition").count()\n#',
        r"needs more \(Aggregate\)",
    ),
    (
        MERGE,
        "path: table",
        "table: shop",
        r"one\.yml:10: shop would be forgotten when the job ends",
    ),
    (DEAD, "{path: dead}", "{table: a.b}", r"one\.yml:11: a\.b would be forgotten"),
    (DEAD, "partitionBy: page", "partitionBy: pge", r"sink\.partitionBy names pge, .*mean page\?"),
    (
        MERGE,
        "id BIGINT",
        "id DECIMAL(50,2)",
        r"one\.yml:5: source\.decode\.fields cannot be parsed: Decimal precision 50 exceeds max "
        r"precision 38: give each field a name and a type",
    ),
    (
        MERGE,
        "id BIGINT",
        "id-nr BIGINT",
        r"one\.yml:5: .* The unquoted identifier id-nr is invalid",
    ),
    (MERGE, "id BIGINT, page STRING, gone BOOLEAN", "ARRAY<INT>", r": it is the type array<int>: "),
]


@pytest.mark.parametrize(("text", "old", "new", "sentence"), MISTAKES)
def test_what_only_spark_finds(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    text: str,
    old: str,
    new: str,
    sentence: str,
) -> None:
    """Names and types that don't fit are the user's to mend, told with the line, before a start."""
    code = written(tmp_path, CODE.replace(old, new))
    made = job(tmp_path, kafka, text.format(topic=topic(1), code=code).replace(old, new))

    with pytest.raises(ConfigError, match=sentence):
        delta_sink.start(spark, made)


def test_without_dead_letters_a_bad_value_fails(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The error tells the record's place, and what to do."""
    name = topic(1)
    produce(kafka, name, b'{"id": 1}', b"not json")

    with pytest.raises(Exception, match=rf"cannot decode {name}-0, offset 1: value is not JSON"):
        drain(spark, job(tmp_path, kafka, MERGE.format(topic=name)))
