"""SIGKILL while windows over typed values are counted: each record counts exactly once."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.faults import test_kill
from integration.formats.windows import WINDOW_S
from integration.records import producer
from integration.sessions import needs_delta
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

PARTITIONS, RECORDS, KILLS = 4, 200_000, 4
RECORDS_A_SECOND = 500
"""Of event time, so there are 40 windows."""
BEGAN = 1_700_000_000
query = partial(test_kill.query, module="integration.formats.windows")


@needs_delta()
def test_windows_after_kills(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query with a watermark over valueFormat=json is killed after commits. The table then has
    each closed window once, with all of its records."""
    name = topic(PARTITIONS)
    write(kafka, name)
    for _ in range(KILLS):
        before = batches(tmp_path / "checkpoint", "commits")
        with query(kafka, name, tmp_path, processingTime="0 seconds") as child:
            child.wait_for(
                lambda seen=before: batches(tmp_path / "checkpoint", "commits") != seen, "a commit"
            )
    with query(kafka, name, tmp_path, availableNow=True) as child:
        assert 0 == child.process.wait(2 * PATIENCE_S), child.log.read_text()[-4000:]

    table = spark.read.format("delta").load(str(tmp_path / "table"))
    rows = [tuple(row) for row in table.collect()]
    assert KILLS < len(batches(tmp_path / "checkpoint", "commits"))
    assert sorted(rows) == expected()


def write(kafka: Cluster, topic: str) -> None:
    """Write records in order of time, round the partitions; the last one closes all windows."""
    with producer(kafka, linger_ms=20) as sender:
        for number in range(RECORDS):
            sender.send(topic, record(number, at(number)), partition=number % PARTITIONS)
        last = record(-1, at(RECORDS) + 10 * WINDOW_S)
        sender.send(topic, last, partition=0)


def at(number: int) -> float:
    """The event time of a record, in seconds since 1970."""
    return BEGAN + number / RECORDS_A_SECOND


def record(number: int, seconds: float) -> bytes:
    """A record's value."""
    time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"id": number, "at": time}).encode()


def expected() -> list[tuple[int, int, int]]:
    """The closed windows: start, number of records, sum of their ids."""
    windows = defaultdict[int, list[int]](list)
    for number in range(RECORDS):
        windows[int(at(number)) // WINDOW_S * WINDOW_S].append(number)
    return sorted((start, len(ids), sum(ids)) for start, ids in windows.items())
