"""Micro-batches into Delta: once each, whatever way, also when Spark forgets that it wrote them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.running.project import job
from integration.running.sinks import (
    CODE,
    DEAD,
    MERGE,
    drain,
    forget_last_commit,
    produce,
    rows,
    written,
)
from integration.streams import finish, wait_until
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.metrics.batches import BatchMetrics
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.query_recorder import QueryRecorder, query_listener
from kfetch_jobs.run.start_checks import check_new_query
from kfetch_jobs.run.tables import unfenced

pytestmark = pytest.mark.integration

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


def drain_watched(spark: SparkSession, made: Job) -> list[Batch]:
    """The same as a run of its own, which notes its progress; what it told."""
    told: list[Batch] = []
    made.directory.mkdir(parents=True, exist_ok=True)
    watch = QueryRecorder(made, told.append)
    heard = query_listener(watch, made.name)
    spark.streams.addListener(heard)
    try:
        finish(delta_sink.start(spark, made, unfenced, watch.counts))
        # Spark's words come late: the first may be of the end of the query before.
        wait_until(lambda: told and watch.ended.is_set(), what="word of a micro-batch and the end")
    finally:
        spark.streams.removeListener(heard)
    return told


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
    wrong = [b"not json", b"\xff\xfe", b'{"id": "x"}', b'["a"]']
    produce(kafka, name, b'{"id": 1, "page": "/a"}', *wrong, b'{"id": 2}', None, b"")
    metrics = BatchMetrics(made.directory.parent)
    told = drain_watched(spark, made)
    produce(kafka, name, b'{"id": 3, "page": "/b"}', b"again not")
    drain(spark, made)  # its process dies before it has told of the batch
    forget_last_commit(made)
    told += drain_watched(spark, made)

    assert [(0, 8, 4), (1, 2, 1)] == [(one.batch, one.rows, one.dead_letters) for one in told]
    assert told == progress.read_batches(made.directory)
    metrics.update()
    metrics.add_samples(samples := SampleSet(), made.name)
    counted = {sample.name: sample.value for part in samples.families() for sample in part.samples}
    assert (10, 5) == (
        counted["kfetch_job_rows_total"],
        counted["kfetch_job_dead_letters_total"],
    )
    # A null value is no damage: Kafka's tombstone. An empty value counts as one.
    nulls = [(None, None, 6), (None, None, 7)]
    assert [(1, "/a", 0), (2, None, 5), (3, "/b", 8), *nulls] == sorted(
        ((row.id, row.page, row.offset) for row in rows(spark, tmp_path / "table")), key=str
    )
    dead = sorted(rows(spark, tmp_path / "dead"), key=lambda row: row.offset)
    assert [*enumerate(wrong, start=1), (9, b"again not")] == [
        (row.offset, bytes(row.value)) for row in dead
    ]
    assert {(name, 0)} == {(row.topic, row.partition) for row in dead}
    assert all(row.error.startswith("the value does not fit valueSchema: ") for row in dead)
    assert "batch 0: 4 records in the dead letters, " in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("option", ["keyFormat: string", "columns: "])
def test_dead_letters_of_text_are_bytes(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path, option: str
) -> None:
    """Their table has the bytes of keys and values, also if the source reads them as strings."""
    name = topic(1)
    if option == "columns: ":
        option += "'key STRING, value, topic, partition, offset, timestamp'"
    text = DEAD.format(topic=name, code=written(tmp_path, CODE))
    text = text.replace("earliest}", "earliest, " + option + "}")
    made = job(tmp_path, kafka, text)
    produce(kafka, name, b'{"id": 1}', b"\xff\xfe")
    drain(spark, made)

    (dead,) = rows(spark, tmp_path / "dead")
    assert (bytearray(b"k"), bytearray(b"\xff\xfe")) == (dead.key, dead.value)


STATIC_JOIN = """\
def clicks(source):
    users = source.sparkSession.read.parquet("{users}")
    known = users.groupBy("id").agg({{"name": "max"}})  # an aggregate of the static side alone
    known = known.withColumnRenamed("max(name)", "name")
    return source.select("event.*", "offset").join(known, "id", "{how}")
"""


@pytest.mark.long
def test_a_join_with_a_static_table_beside_dead_letters(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Each row of the stream finds its partner. Spark refuses a join that keeps rows of the static
    table alone: it would write them with every micro-batch."""
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
    with pytest.raises(ConfigError, match=r"one\.yml:8: .*[Rr]ight"):
        delta_sink.start(spark, wrong, unfenced)


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
        'return source.groupBy("event.page").count()\n#',
        r"one\.yml:8: Invalid streaming output mode: append.*without watermark",
    ),
    (
        MERGE,
        "path: table",
        "table: shop",
        r"one\.yml:10: shop would be forgotten when the job ends",
    ),
    (DEAD, "{path: dead}", "{table: a.b}", r"one\.yml:11: a\.b would be forgotten"),
    (DEAD, "partitionBy: page", "partitionBy: pge", r"sink\.partitionBy names pge, .*mean page\?"),
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
        delta_sink.start(spark, made, unfenced)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_changed_select(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """A column that the table lacks is refused before the first micro-batch, with its name, the
    line and the option that adds it. With the option, the job goes on."""
    sink = "" if mode == "append" else ", mode: merge, keys: offset, latestBy: offset"
    text = (
        "source: {{cluster: main, subscribe: {topic}, options: {{startingOffsets: earliest}}}}\n"
        "transform:\n  sql: SELECT {columns} FROM source\n"
        "sink: {{path: table{sink}}}\ntrigger: availableNow\n"
    )
    name = topic(1)
    produce(kafka, name, b"a")
    drain(spark, job(tmp_path, kafka, text.format(topic=name, columns="offset", sink=sink)))
    produce(kafka, name, b"b")
    more = {"topic": name, "columns": "offset, partition, named_struct('a', 1) AS s"}
    with pytest.raises(ConfigError, match=r"one\.yml:2: .*/table has no column partition and s,"):
        drain(spark, job(tmp_path, kafka, text.format(**more, sink=sink)))
    evolving = sink + ", options: {mergeSchema: true}"
    drain(spark, job(tmp_path, kafka, text.format(**more, sink=evolving)))
    found = sorted((row.offset, row.partition) for row in rows(spark, tmp_path / "table"))
    assert [(0, None), (1, 0)] == found

    deeper = more | {"columns": "offset, partition, named_struct('a', 1, 'b', 2) AS s"}
    with pytest.raises(ConfigError, match=r"/table has no column s\.b,"):
        drain(spark, job(tmp_path, kafka, text.format(**deeper, sink=sink)))
    if mode == "merge":
        with pytest.raises(ConfigError, match="does not give partition and s, a column of"):
            drain(
                spark, job(tmp_path, kafka, text.format(**more | {"columns": "offset"}, sink=sink))
            )


@pytest.mark.long  # test_a_changed_select has the usual option
@pytest.mark.parametrize("way", ["option", "setting"])
def test_other_ways_to_let_delta_add_columns(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """Spark takes options in any case, and Delta has a setting for the session. Both add columns,
    so the job starts."""
    name = topic(1)
    text = (
        "source: {{cluster: main, subscribe: {topic}, options: {{startingOffsets: earliest}}}}\n"
        "transform:\n  sql: SELECT {columns} FROM source\n"
        "sink: {{path: table, options: {{{options}}}}}\ntrigger: availableNow\n"
    )
    produce(kafka, name, b"a")
    drain(spark, job(tmp_path, kafka, text.format(topic=name, columns="offset", options="")))
    produce(kafka, name, b"b")
    options = "mergeschema: true" if way == "option" else ""
    made = job(
        tmp_path, kafka, text.format(topic=name, columns="offset, partition", options=options)
    )
    spark.conf.set(AUTO_MERGE, str(way == "setting"))
    try:
        drain(spark, made)
    finally:
        spark.conf.unset(AUTO_MERGE)

    found = sorted((row.offset, row.partition) for row in rows(spark, tmp_path / "table"))
    assert [(0, None), (1, 0)] == found


@pytest.mark.long
def test_a_changed_type(
    kafka: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Beside dead letters, Delta refuses a column of another type. The error has both types. With
    another name for the column, the same micro-batch is written."""
    text = (
        "source:\n  cluster: main\n  subscribe: {topic}\n"
        "  decode: {{fields: 'amount {type}'}}\n  options: {{startingOffsets: earliest}}\n"
        "transform:\n  sql: SELECT event.amount AS {name}, offset FROM source\n"
        "sink: {{path: table, deadLetters: {{path: dead}}{sink}}}\ntrigger: availableNow\n"
    )
    name = topic(1)
    produce(kafka, name, b'{"amount": 12}')
    before = {"topic": name, "type": "BIGINT", "name": "amount", "sink": ""}
    drain(spark, job(tmp_path, kafka, text.format(**before)))
    produce(kafka, name, b'{"amount": 12.5}')
    changed = before | {"type": "DECIMAL(10,2)"}
    with pytest.raises(Exception, match=r"amount is BIGINT there, and DECIMAL\(10,2\) here: cast"):
        drain(spark, job(tmp_path, kafka, text.format(**changed)))
    renamed = changed | {"name": "amount_exact", "sink": ", options: {mergeSchema: true}"}
    drain(spark, job(tmp_path, kafka, text.format(**renamed)))

    found = sorted(
        (row.offset, row.amount, row.amount_exact) for row in rows(spark, tmp_path / "table")
    )
    assert [(0, 12, None), (1, None, Decimal("12.50"))] == found


def test_a_name_of_another_kind_of_table(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a mistake in the file, with its line. Another try would not help."""
    monkeypatch.setattr(delta_sink, "_check_catalog", lambda spark, job: None)
    text = DEAD.format(topic=topic(1), code=written(tmp_path, CODE))
    made = job(tmp_path, kafka, text.replace("path: table", "table: plain"))
    spark.sql(f"CREATE TABLE plain (id BIGINT) USING parquet LOCATION '{tmp_path}/plain'")
    try:
        for look in (check_new_query, partial(delta_sink.start, check=unfenced)):
            with pytest.raises(ConfigError, match=r"one\.yml:8: .*plain.* is not a Delta table"):
                look(spark, made)
    finally:
        spark.sql("DROP TABLE plain")
