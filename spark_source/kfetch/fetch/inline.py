"""Reading a split inside the worker: sessions live in Spark's Python worker, one per broker.

Spark uses a worker for many tasks, so the sessions of a query outlive a task here: the next
micro-batch's request names only what moved.
"""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from kfetch.fetch import stats
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.split_reader import InlineSource, SplitReader
from kfetch.model import Broker, OffsetRange, Split
from kfetch.options import SourceOptions
from kfetch.wire.cluster import Cluster

QUERIES_MAX = 4
"""Queries whose sessions a worker keeps; the one unused longest is closed for a fifth."""

_queries: OrderedDict[str, Query] = OrderedDict()


@atexit.register
def close_all() -> None:
    """Close every session of this process; a worker that Spark kills leaves them to expire."""
    while _queries:
        _queries.popitem()[1].close()


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a split, in order within each partition. Raises errors below KfetchError."""
    query = _queries.pop(split.query, None) or Query(split.query, options)
    _queries[split.query] = query
    while len(_queries) > QUERIES_MAX:
        _queries.popitem(last=False)[1].close()
    return query.read(split.ranges)


class Query:
    """A query's fetchers in this process."""

    def __init__(self, name: str, options: SourceOptions) -> None:
        self._name = name
        self._options = options
        self._cluster = Cluster(options.bootstrap, options.network)
        self._fetchers: dict[Broker, Fetcher] = {}
        self._pump = InlineSource(
            self._fetcher, options.fetch.partition_max_bytes, options.skip_corrupt_batches
        )
        self._totals = stats.Totals()

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Read ranges; see ``inline.read``."""
        reading = SplitReader(ranges, self._options, self._cluster, self._pump, self._totals.add)
        try:
            for delivery in reading.deliveries():
                yield delivery.batch
        finally:
            self._write_stats()

    def _fetcher(self, broker: Broker) -> Fetcher:
        """The broker's fetcher, made when first needed."""
        if broker not in self._fetchers:
            self._fetchers[broker] = Fetcher(broker, self._options.fetch, self._options.network)
        return self._fetchers[broker]

    def stats(self) -> stats.FetchStats:
        """What the query's sessions cost in this process."""
        fetched = stats.total(fetcher.stats() for fetcher in self._fetchers.values())
        return fetched + self._totals.stats()

    def close(self) -> None:
        """Close every session and connection."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._cluster.close()

    def _write_stats(self) -> None:
        if self._options.stats_directory:
            stats.write(self._options.stats_directory, self._name, self.stats())
