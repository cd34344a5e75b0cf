"""``spark.read.format("kfetch")``: the reader of a batch read.

Spark makes this reader in a planning process of the driver, and asks it for the partitions there.
That happens when Spark plans the first action on a DataFrame. Spark keeps the partitions since 4.1,
so later actions on the same DataFrame read the same offsets. A new ``load()`` finds new ones. Spark
4.0 asks wherever a query uses the DataFrame.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kfetch.options.catalogue import no_effect
from kfetch.spark import versions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from kfetch.model import Split
    from kfetch.options import SourceOptions
    from kfetch.watch.narrowing import Condition

log = logging.getLogger(__name__)

_LEASE_S_MAX = 5.0
"""How long an agent keeps the sessions of a batch read that no task reads. No later micro-batch
needs them, and a driver may start many batch reads one after the other."""

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class KfetchBatchSplit(InputPartition):
    """A split of a batch read. Its value is None if there is nothing to read."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class KfetchReader(DataSourceReader):
    """Plans a batch read on the driver and reads its splits on executors."""

    def __init__(self, options: SourceOptions) -> None:
        lease_s = min(options.agent.lease_s, _LEASE_S_MAX)
        self._options = replace(options, agent=replace(options.agent, lease_s=lease_s))
        self._conditions: tuple[Condition, ...] = ()

    def partitions(self) -> list[KfetchBatchSplit]:
        """Ask the brokers for offsets, and return the splits.

        Without any split Spark calls ``read`` once, with nothing to read.
        """
        from kfetch.watch.batch_planning import plan_batch
        from kfetch.watch.lookups import OffsetLookup

        versions.warn_if_untested()
        for name in self._options.ignored:
            log.warning("kfetch: %s", no_effect(name))
        for sentence in versions.unsupported_options(self._options):
            log.warning("kfetch: %s", sentence)
        with closing(OffsetLookup(self._options)) as lookup:
            splits = plan_batch(self._options, lookup, self._conditions)
        return [KfetchBatchSplit(split) for split in splits]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Returns a split's records. Runs in an executor's Python worker."""
        from kfetch.spark import worker

        split: Split | None = versions.value_of(partition)
        return iter(()) if split is None else worker.read_once(split, self._options)


class NarrowingReader(KfetchReader):
    """A reader that also reads less if the query has filters.

    Spark refuses a reader with ``pushFilters`` while the setting
    ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note the filters, and return them all: Spark applies each of them to the rows.

        A field of the values may have the name of a column that the query does not read.
        """
        from kfetch.spark.filters import conditions

        delivered = {column.name for column in self._options.delivered}
        found = conditions(filters)
        self._conditions = tuple(item for item in found if item.column in delivered)
        return list(filters)


def batch_reader(options: SourceOptions) -> KfetchReader:
    """Returns the reader for this process. It takes filters only if Spark is about to pass them.

    Spark passes filters in a planning process of another kind, and only while
    ``spark.sql.python.filterPushdown.enabled`` is on. No other process knows that setting.
    """
    takes_filters = options.push_filters and _is_pushdown_process()
    return NarrowingReader(options) if takes_filters else KfetchReader(options)


def _is_pushdown_process() -> bool:
    # Spark's worker daemon imports the module; without the daemon it is the main module.
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHDOWN_WORKER in (*sys.modules, getattr(spec, "name", ""))
