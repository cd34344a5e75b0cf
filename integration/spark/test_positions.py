"""Where a query starts and continues: startingOffsets and checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.checkpoints import batches, forget_commit, logged, rewrite
from integration.conftest import TopicFactory
from integration.records import numbered, write
from integration.streams import drain, kfetch, running, wait_idle, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


def test_latest_begins_behind_what_is_there(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Without startingOffsets a query delivers what arrives after its start, from each end on."""
    name = topic(2)
    write(kafka, name, ["old"])

    with running(kfetch(spark, kafka, subscribe=name), tmp_path) as (query, delivered):
        wait_idle(query)
        write(kafka, name, ["new-0"])
        write(kafka, name, ["new-1"], partition=1)
        wait_until(lambda: delivered.count >= 2, query)

    assert [(0, 1), (1, 0)] == delivered.places


def test_json_gives_each_partition_its_start(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """startingOffsets as JSON: a number is that offset, -2 the earliest, -1 the latest."""
    name = topic(3)
    for partition in range(3):
        write(kafka, name, numbered("v", 3), partition=partition)
    starting = json.dumps({name: {"0": 2, "1": -2, "2": -1}})

    delivered = drain(kfetch(spark, kafka, subscribe=name, startingOffsets=starting), tmp_path)

    assert [(0, 2), (1, 0), (1, 1), (1, 2)] == delivered.places


def test_a_restarted_query_delivers_only_what_is_new(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query continues at its checkpoint, whatever startingOffsets says."""
    name = topic(2)
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")
    write(kafka, name, ["a", "b"])

    first = drain(source, tmp_path)
    nothing = drain(source, tmp_path)
    write(kafka, name, ["c"])
    write(kafka, name, ["d"], partition=1)
    again = drain(source, tmp_path)

    assert [(0, 0), (0, 1)] == first.places
    assert [] == nothing.places
    assert [(0, 2), (1, 0)] == again.places


def test_a_batch_that_was_not_committed_is_delivered_again(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A restart repeats the last logged batch with the same rows if its commit is missing."""
    name = topic()
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=5
    )
    write(kafka, name, numbered("v", 10))
    drain(source, tmp_path)
    forget_commit(tmp_path, 1)
    write(kafka, name, ["w"])

    again = drain(source, tmp_path)

    assert [[5, 6, 7, 8, 9], [10]] == [[row.offset for row in batch] for batch in again.batches]


def test_batch_0_is_repeated_from_its_own_start(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Batch 0 carries where it starts, so a restart whose initial offset lies past it loses
    nothing."""
    name = topic()
    write(kafka, name, ["a", "b"])
    drain(kfetch(spark, kafka, subscribe=name, startingOffsets="earliest"), tmp_path)
    forget_commit(tmp_path, 0)
    write(kafka, name, ["c"])

    again = drain(kfetch(spark, kafka, subscribe=name, startingOffsets="latest"), tmp_path)

    assert {name: {"0": [0, 0]}} == logged(tmp_path, 0)["from"]
    assert [(0, 0), (0, 1), (0, 2)] == again.places


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "(de)serialization of initial offsets",
)
def test_what_arrives_after_an_empty_batch_0_is_kept(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Batch 0 of a latest query is empty; a crash in it loses nothing that came before the
    restart."""
    name = topic()
    write(kafka, name, ["old"])
    source = kfetch(spark, kafka, subscribe=name)
    with running(source, tmp_path) as (query, _):
        wait_until(lambda: [0] == batches(tmp_path, "commits"), query)
    forget_commit(tmp_path, 0)
    write(kafka, name, ["new"])

    again = drain(source, tmp_path)

    assert [(0, 1)] == again.places


@pytest.mark.parametrize("committed", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_checkpoint_of_sparks_connector_is_taken_over(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, committed: bool
) -> None:
    """A checkpoint whose offsets are the connector's plain JSON goes on where it stands, in the
    middle of a batch too."""
    name = topic(2)
    for partition in range(2):
        write(kafka, name, numbered("v", 4), partition=partition)
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=4
    )
    drain(source, tmp_path)
    for batch in range(2):
        positions = logged(tmp_path, batch)["topics"][name]["partitions"]
        rewrite(tmp_path, batch, {name: {p: at[0] for p, at in positions.items()}})
    if not committed:
        forget_commit(tmp_path, 1)
    write(kafka, name, ["new"])

    read_on = drain(source, tmp_path)

    again = [] if committed else [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert sorted([*again, (0, 4)]) == read_on.places
