"""Streaming queries for tests: options by keyword, rows by micro-batch, waiting for conditions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.sparks import Feature, has
from kfetch_jobs.kafka import Cluster

PATIENCE_S = 180
"""Nothing takes so long, but the machine may be busy with other work."""


def kfetch(spark: SparkSession, cluster: Cluster, **options: object) -> DataFrame:
    """``format("kfetch")`` at a cluster."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    texts = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("kfetch").options(**servers | texts).load()


class Delivered:
    """The rows that a query's sink was given, by micro-batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[int, list[Row]] = {}
        self._furthest: dict[int, int] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        """The function for ``foreachBatch``."""
        rows = frame.collect()
        with self._lock:
            self._batches[batch] = rows
            for row in rows:
                at = self._furthest.get(row.partition, -1)
                self._furthest[row.partition] = max(at, row.offset)

    @property
    def furthest(self) -> dict[int, int]:
        """The highest offset of each partition, over all topics."""
        with self._lock:
            return dict(self._furthest)

    @property
    def count(self) -> int:
        """How many rows there are."""
        with self._lock:
            return sum(map(len, self._batches.values()))

    @property
    def batches(self) -> list[list[Row]]:
        """The rows of each micro-batch, in the order of their ids."""
        with self._lock:
            return [rows for _, rows in sorted(self._batches.items())]

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.batches for row in rows]

    @property
    def values(self) -> list[str]:
        """All values as text, sorted."""
        return sorted(bytes(row.value).decode() for row in self.rows)

    @property
    def places(self) -> list[tuple[int, int]]:
        """(partition, offset) of all rows, sorted; what came twice is there twice."""
        return sorted((row.partition, row.offset) for row in self.rows)


def drain(frame: DataFrame, checkpoint: Path) -> Delivered:
    """Run a query over what is there now, to its end; raises what ended it.

    If the installed Spark ends a run after one limited micro-batch, the query runs again until it
    finds nothing.
    """
    delivered = Delivered()
    batches = -1
    while len(delivered.batches) > batches:
        batches = len(delivered.batches)
        run_available(frame, checkpoint, delivered)
        if has(Feature.LIMITED_AVAILABLE_NOW):
            break
    return delivered


def run_available(frame: DataFrame, checkpoint: Path, delivered: Delivered) -> StreamingQuery:
    """Run an AvailableNow query once, to its end; raises what ended it. Returns the query."""
    query = (
        frame.writeStream.foreachBatch(delivered.take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    return query


def finish(query: StreamingQuery) -> None:
    """Wait for a query to end by itself; raises what ended it."""
    ended = query.awaitTermination(PATIENCE_S)
    if not ended:
        query.stop()
        raise TimeoutError(f"the query did not end: {query.lastProgress}")


@contextmanager
def running(
    frame: DataFrame, checkpoint: Path, **trigger: object
) -> Iterator[tuple[StreamingQuery, Delivered]]:
    """A query that runs meanwhile, with the default trigger or the given one."""
    delivered = Delivered()
    writer = frame.writeStream.foreachBatch(delivered.take).option(
        "checkpointLocation", str(checkpoint)
    )
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query, delivered
    finally:
        query.stop()


def wait_until(
    condition: Callable[[], object],
    query: StreamingQuery | None = None,
    what: str = "a condition",
    *,
    pause_s: float = 0.05,
) -> None:
    """Wait for a condition; a query that has failed meanwhile raises its error here."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if query is not None and query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for {what} in vain")
        time.sleep(pause_s)


def wait_idle(query: StreamingQuery) -> None:
    """Wait until a query has asked for its start and found nothing to read."""
    # Spark waits for 10 ms, and then asks the source, which answers within half a second.
    wait_until(
        lambda: query.status["message"] == "Waiting for data to arrive",
        query,
        "an idle query",
        pause_s=0.002,
    )
