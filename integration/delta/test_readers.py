"""A query writes small files each second: what readers see meanwhile, also while files merge."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from integration.checkpoints import batches, logged
from integration.conftest import TopicFactory
from integration.delta.readers import places
from integration.faults.test_kill import query
from integration.records import producer
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

_PARTITIONS = 3
_RECORDS_PER_S = 200
_READS_PER_MERGE = 20
"""delta-rs merges files after each so many reads of the table."""


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.parametrize("seconds", [10, 120])
def test_readers_see_whole_micro_batches(
    kafka: Cluster, topic: TopicFactory, tmp_path: Path, seconds: int
) -> None:
    """At any moment, a reader sees each record of the committed micro-batches once, and no other
    record. That holds while delta-rs merges files, too, and the query goes on. Far fewer
    files are left than there were micro-batches and tasks."""
    name, checkpoint, path = topic(_PARTITIONS), tmp_path / "checkpoint", tmp_path / "table"
    seen: set[int] = set()
    merged = 0
    with (
        records_sent(kafka, name) as sent,
        query(
            kafka, name, tmp_path, None, "integration.delta.query", processingTime="1 second"
        ) as child,
    ):
        child.wait_for(lambda: batches(checkpoint, "commits"), "a micro-batch")
        identifier = json.loads((checkpoint / "metadata").read_text())["id"]
        until = time.monotonic() + seconds
        for number in range(10**9):
            table = DeltaTable(str(path))
            last = table.transaction_version(identifier)
            assert ends_of(checkpoint, name, last) == rows_of(table)
            seen.add(last)
            if number % _READS_PER_MERGE == _READS_PER_MERGE - 1:
                merged += table.optimize.compact()["numFilesRemoved"]
            if time.monotonic() > until:
                break
        before = len(batches(checkpoint, "commits"))
        child.wait_for(lambda: len(batches(checkpoint, "commits")) > before, "another micro-batch")
        count = len(sent)
        child.wait_for(lambda: len(places(path)) >= count, "the records so far")

    assert len(seen) > seconds // 3
    assert merged > 2
    assert len(DeltaTable(str(path)).file_uris()) < _PARTITIONS * len(
        batches(checkpoint, "commits")
    )
    assert len(set(places(path))) == len(places(path))


@contextmanager
def records_sent(kafka: Cluster, name: str) -> Iterator[list[int]]:
    """Sends records during the block, by turns to all partitions. Yields a growing list of them."""
    stop, sent = threading.Event(), list[int]()

    def send() -> None:
        with producer(kafka, linger_ms=5) as sender:
            while not stop.wait(1 / _RECORDS_PER_S):
                sender.send(name, b"value", partition=len(sent) % _PARTITIONS)
                sent.append(1)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join(30)


def ends_of(checkpoint: Path, name: str, batch: int | None) -> dict[int, tuple[int, int]]:
    """For each partition the number of records up to a micro-batch, and the last offset."""
    assert batch is not None
    partitions = logged(checkpoint, batch)["topics"][name]["partitions"]
    return {int(p): (end[0], end[0] - 1) for p, end in partitions.items() if end[0]}


def rows_of(table: DeltaTable) -> dict[int, tuple[int, int]]:
    """For each partition the number of rows in a table, and the last offset."""
    rows = table.to_pyarrow_table(columns=["partition", "offset"]).group_by("partition")
    counted = rows.aggregate([("offset", "count"), ("offset", "max")]).to_pylist()
    return {row["partition"]: (row["offset_count"], row["offset_max"]) for row in counted}
