"""What differs between versions of Spark: the start of a limited micro-batch, and AvailableNow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.checkpoints import batches, forget_commit
from integration.conftest import TopicFactory
from integration.records import log_ends, numbered, producer, write
from integration.sparks import Feature, has
from integration.streams import Delivered, drain, kfetch, run_available, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


def sizes(delivered: Delivered) -> list[int]:
    """The rows of each micro-batch that had any."""
    return [len(rows) for rows in delivered.batches if rows]


@pytest.mark.long  # with Spark 4.2 and later, test_source and test_positions have limits, too
def test_every_micro_batch_is_limited(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The limit holds for the first micro-batch of a new query, for the first one after a restart,
    and behind an unfinished one."""
    name = topic()
    write(kafka, name, numbered("v", 50))
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    source = kfetch(spark, kafka, subscribe=name, **limited)
    runs = []
    for end in (3, 6, 9):
        with running(source, tmp_path) as (query, delivered):
            wait_until(lambda end=end: end in batches(tmp_path, "commits"), query)  # type: ignore[misc]
        runs.append(delivered)
        last = batches(tmp_path, "commits")[-1]
        if last == batches(tmp_path, "offsets")[-1]:
            forget_commit(tmp_path, last)

    assert {4} == {size for run in runs for size in sizes(run)[:-1]}
    rows = {(row.partition, row.offset): row.value for run in runs for row in run.rows}
    assert [(0, n) for n in range(len(rows))] == sorted(rows)


@pytest.mark.long  # with Spark 4.2 and later, test_triggers has the same sizes
def test_a_limited_available_now_query(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """If a run is one micro-batch, the limit bounds it, and the next runs read the rest."""
    name = topic()
    write(kafka, name, numbered("v", 9))
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    source = kfetch(spark, kafka, subscribe=name, **limited)
    first = Delivered()
    run_available(source, tmp_path, first)
    rest = drain(source, tmp_path)

    expected = [4, 4, 1]
    at = 3 if has(Feature.LIMITED_AVAILABLE_NOW) else 1
    assert (expected[:at], expected[at:]) == (sizes(first), sizes(rest))


def test_limited_runs_until_one_finds_nothing(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The loop in docs/reference/spark-versions.md ends with a run without a micro-batch. One may
    have no rows before that: here two hold only the end of a transaction."""
    name = topic()
    with producer(kafka, transactional_id=name) as sender:
        sender.init_transactions()
        for value in (b"0", b"2"):
            sender.begin_transaction()
            sender.send(name, value, partition=0).get(30)
            sender.commit_transaction()
    wait_until(lambda: log_ends(kafka, name) == {0: 4})
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 1}
    source = kfetch(spark, kafka, subscribe=name, **limited)
    delivered = Delivered()
    writer = source.writeStream.foreachBatch(delivered.take)
    writer = writer.option("checkpointLocation", str(tmp_path))

    while True:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.lastProgress
        if not progress or "addBatch" not in progress["durationMs"]:
            break

    assert [(0, 0), (0, 2)] == delivered.places


@pytest.mark.long  # with Spark 4.2 and later, test_positions has the same rows
def test_an_available_now_query_finishes_a_micro_batch(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """After a crash a run repeats the micro-batch. Whether it goes on depends on Spark; the next
    run does."""
    name = topic()
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")
    write(kafka, name, numbered("v", 5))
    run_available(source, tmp_path, Delivered())
    forget_commit(tmp_path, 0)
    write(kafka, name, numbered("w", 3))
    again, later = Delivered(), Delivered()
    run_available(source, tmp_path, again)
    run_available(source, tmp_path, later)

    expected = ([5, 3], []) if has(Feature.AVAILABLE_NOW_GOES_ON) else ([5], [3])
    assert expected == (sizes(again), sizes(later))


def test_the_log_end_in_the_progress(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The progress of a limited micro-batch names the log end, or its own end with an old Spark.

    So ``LagListener`` has no lag there."""
    name = topic()
    write(kafka, name, numbered("v", 9))
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    source = kfetch(spark, kafka, subscribe=name, **limited)
    query = run_available(source, tmp_path, Delivered())

    (reported,) = json.loads(query.recentProgress[0].json)["sources"]
    documents = (reported[key]["topics"][name] for key in ("endOffset", "latestOffset"))
    ends = [document["partitions"]["0"][0] for document in documents]
    assert [4, 9 if has(Feature.LOG_ENDS_IN_PROGRESS) else 4] == ends


@pytest.mark.skipif(has(Feature.LIMITED_AVAILABLE_NOW), reason="Spark 4.2 does not use the wrapper")
def test_the_wrapper_for_available_now_is_refused_after_a_restart(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """With that setting, Spark asks for the end before it names the start. Nothing is planned, and
    without the setting the query goes on."""
    name = topic()
    write(kafka, name, numbered("v", 5))
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")
    spark.conf.set(WRAPPER, "true")
    try:
        first = Delivered()
        run_available(source, tmp_path, first)
        write(kafka, name, numbered("w", 3))
        with pytest.raises(StreamingQueryException, match=f"set {WRAPPER} to false"):
            run_available(source, tmp_path, Delivered())
    finally:
        spark.conf.unset(WRAPPER)
    planned = batches(tmp_path, "offsets")
    rest = drain(source, tmp_path)

    assert [0] == planned
    assert ([5], [3]) == (sizes(first), sizes(rest))
