"""``spark.read.format("kfetch")``: the reader of a batch read.

Spark makes this reader in a planning process of the driver, and asks it for the partitions there.
That happens when Spark plans the first action on a DataFrame. Spark keeps the partitions since 4.1,
so later actions on the same DataFrame read the same offsets. A new ``load()`` finds new ones. Spark
4.0 asks wherever a query uses the DataFrame.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kfetch.options.catalogue import no_effect
from kfetch.spark import versions
from kfetch.spark.release import OfOneRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from kfetch.model import Split
    from kfetch.options import SourceOptions

log = logging.getLogger(__name__)

_LEASE_S_MAX = 5.0
"""How long an agent keeps the sessions of a batch read that no task reads. No later micro-batch
needs them, and a driver may start many batch reads one after the other."""


class KfetchBatchSplit(OfOneRelease, InputPartition):
    """A split of a batch read. Its value is None if there is nothing to read."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class KfetchReader(OfOneRelease, DataSourceReader):
    """Plans a batch read on the driver and reads its splits on executors."""

    def __init__(self, options: SourceOptions) -> None:
        lease_s = min(options.agent.lease_s, _LEASE_S_MAX)
        self._options = replace(options, agent=replace(options.agent, lease_s=lease_s))

    def partitions(self) -> list[KfetchBatchSplit]:
        """Ask the brokers for offsets, and return the splits.

        Without any split Spark calls ``read`` once, with nothing to read.
        """
        from kfetch.watch.batch_planning import plan_batch
        from kfetch.watch.lookups import OffsetLookup

        versions.warn_if_untested()
        for name in self._options.ignored:
            log.warning("kfetch: %s", no_effect(name))
        with closing(OffsetLookup(self._options)) as lookup:
            splits = plan_batch(self._options, lookup)
        return [KfetchBatchSplit(split) for split in splits]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Returns a split's records. Runs in an executor's Python worker."""
        from kfetch.spark import worker

        split: Split | None = versions.value_of(partition)
        return iter(()) if split is None else worker.read_once(split, self._options)
