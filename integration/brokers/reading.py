"""A query over one topic without Spark: kfetch's own driver and worker plan and read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from integration.brokers.cluster import ReleaseCluster
from integration.streams import PATIENCE_S
from kfetch.agent import inline
from kfetch.offsets import Offsets, from_json
from kfetch.spark import worker
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver


class Query:
    """Reads micro-batches as a streaming query does. ``checkpoint``: where to continue."""

    def __init__(
        self,
        cluster: ReleaseCluster,
        topic: str,
        checkpoint: dict[str, Any] | None = None,
        **options: str,
    ) -> None:
        self._options = parse(
            {
                "kafka.bootstrap.servers": cluster.bootstrap_servers,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "kfetch.agent": "inline",
                # Brokers are killed and started here.
                "fetchOffset.numRetries": "10",
                **options,
            }
        )
        self._driver = Driver(self._options)
        self._at: Offsets | None = from_json(checkpoint) if checkpoint else None
        self.values: list[bytes] = []
        self.places: list[tuple[int, int]] = []
        """(partition, offset) of each record."""

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.close()
        inline.close_all()

    @property
    def checkpoint(self) -> dict[str, Any]:
        """What Spark would have in its checkpoint now, as JSON."""
        return self.at.to_json()

    @property
    def at(self) -> Offsets:
        """The offsets up to which the query has read."""
        if self._at is None:
            self._at = self._driver.initial_offsets()
        return self._at

    def step(self) -> int:
        """Read one micro-batch, if there is anything new. Returns the number of its records."""
        start = self.at
        end = self._driver.next_end(start, None)
        if end is None:
            return 0
        before = len(self.places)
        for split in self._driver.splits(start, end):
            for batch in worker.read(split, self._options):
                columns = (batch.column(name).to_pylist() for name in ("partition", "offset"))
                self.places += zip(*columns, strict=True)
                self.values += batch.column("value").to_pylist()
        self._at = end
        return len(self.places) - before

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read until a condition holds. Raises TimeoutError if it takes minutes."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.step()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the query stands at {self.checkpoint}")

    def read_count(self, count: int) -> None:
        """Read until there are so many records."""
        self.read_until(lambda: len(self.places) >= count)
