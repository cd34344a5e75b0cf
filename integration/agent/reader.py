"""Does with the source what Spark does, without Spark: plans offsets and reads every split.

Driver, worker and agent are the real ones. The agent's owner is the parent of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kfetch.agent import inline, launch
from kfetch.errors import KfetchError
from kfetch.spark import worker
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver
from kfetch_jobs.kafka import Cluster


class Reader:
    """A query over one topic, from its beginning."""

    def __init__(
        self, cluster: Cluster, topic: str, agent: str, statistics: Path, **options: str
    ) -> None:
        self._options = parse(
            {
                "kafka.bootstrap.servers": cluster.bootstrap_servers,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "kfetch.agent": agent,
                "kfetch.statsDirectory": str(statistics),
                **options,
            }
        )
        self._driver = Driver(self._options)
        self._at = self._driver.initial_offsets()

    def close(self) -> None:
        """Close the driver, the sessions of this process and the agent."""
        self._driver.close()
        inline.close_all()
        for process in launch._started:
            process.terminate()
            process.wait(20)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields all new records, as one micro-batch. Raises KfetchError if there are none.

        Takes a new snapshot as AvailableNow does. A stream would take the watch's log ends.
        """
        self._driver.prepare_available_now()
        end = self._driver.next_end(self._at, None)
        if end is None:
            raise KfetchError("there are no new records")
        splits = self._driver.splits(self._at, end)
        self._at = end
        for split in splits:
            yield from worker.read(split, self._options)

    def read(self) -> list[tuple[int, int]]:
        """Returns the (partition, offset) of every new record."""
        return [
            (partition, offset)
            for batch in self.batches()
            for partition, offset in zip(
                batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True
            )
        ]
