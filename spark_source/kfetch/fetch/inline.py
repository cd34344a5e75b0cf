"""Reads a split inside Spark's Python worker: fetch sessions live there, one per broker.

Spark uses a worker for many tasks, so a query's sessions outlive a task. The next micro-batch's
request names only the partitions that changed.
"""

from __future__ import annotations

import atexit
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa

from kfetch.fetch.arrivals import Arrival
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.limits import BATCH_BYTES, PART_BYTES
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.read_replicas import ReadReplicas
from kfetch.fetch.split_reader import SplitReader
from kfetch.fetch.stats import FetchStats, total
from kfetch.fetch.stats_file import write_stats
from kfetch.fetch.totals import Totals
from kfetch.model import Broker, OffsetRange, Split
from kfetch.options import SourceOptions
from kfetch.records import Memory
from kfetch.wire.cluster import Cluster
from kfetch.wire.frames import ReplyBuffer

QUERIES_MAX = 4
"""So many queries keep their sessions in a worker. One more closes the least recently used."""

_MEMORY = Memory(PART_BYTES)

_queries: OrderedDict[str, Query] = OrderedDict()


@atexit.register
def close_all() -> None:
    """Close every session of this process. If Spark kills a worker, its sessions expire."""
    while _queries:
        _queries.popitem()[1].close()


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split, in order within each partition. Raises KfetchError."""
    query = _queries.pop(split.query, None) or Query(split.query, options)
    if not query.has_credentials(options):
        # Its sessions have the rights of one user.
        query.close()
        query = Query(split.query, options)
    _queries[split.query] = query
    while len(_queries) > QUERIES_MAX:
        _queries.popitem(last=False)[1].close()
    return query.read(split.ranges)


def read_once(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split as ``read`` does, and closes the sessions behind it."""
    query = Query(split.query, options)
    try:
        yield from query.read(split.ranges)
    finally:
        query.close()


class Query:
    """A query's fetchers in this process."""

    def __init__(self, name: str, options: SourceOptions) -> None:
        self._name = name
        self._options = options
        self._cluster = Cluster(options.bootstrap, options.network)
        self._fetchers: dict[Broker, Fetcher] = {}
        """In the order of their first use."""
        self._buffers: dict[Broker, ReplyBuffer] = {}
        self._ended_stats = FetchStats()
        """Of fetchers that are closed."""
        self._replicas = ReadReplicas.of(options)
        self._source = InlineSource(
            self._fetcher,
            options.fetch.partition_max_bytes,
            options.skip_corrupt_batches,
            self._replicas,
        )
        self._totals = Totals()

    def has_credentials(self, options: SourceOptions) -> bool:
        """Return whether the query's connections have the credentials of ``options``."""
        return self._options.network.security == options.network.security

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """Yields the records of ranges; see ``inline.read``."""
        self._close_former_addresses()
        reader = SplitReader(
            ranges,
            self._options,
            self._cluster,
            self._source,
            self._totals.add,
            replicas=self._replicas,
        )
        try:
            for delivery in reader.deliveries():
                yield delivery.batch
        finally:
            for buffer in self._buffers.values():
                buffer.trim()
            self._write_stats()

    def _fetcher(self, broker: Broker) -> Fetcher:
        if broker not in self._fetchers:
            buffer = self._buffers[broker] = ReplyBuffer()
            self._fetchers[broker] = Fetcher(
                broker, self._options.fetch, self._options.network, buffer
            )
        return self._fetchers[broker]

    def _close_former_addresses(self) -> None:
        """Close the fetchers of brokers that have moved to another address since the last read."""
        last_address = {broker.node_id: broker for broker in self._fetchers}
        for broker in [b for b in self._fetchers if b is not last_address[b.node_id]]:
            self._source.forget(broker)
            del self._buffers[broker]
            fetcher = self._fetchers.pop(broker)
            fetcher.close()
            self._ended_stats += fetcher.stats()

    def stats(self) -> FetchStats:
        """Returns what the query's sessions have cost in this process."""
        fetchers = total(fetcher.stats() for fetcher in self._fetchers.values())
        return fetchers + self._ended_stats + self._totals.stats()

    def close(self) -> None:
        """Close every session and connection."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._cluster.close()

    def _write_stats(self) -> None:
        if self._options.reports.stats_directory:
            write_stats(self._options.reports.stats_directory, self._name, self.stats())


class InlineSource:
    """The ArrivalSource that fetches in the caller's thread, when the caller asks for arrivals."""

    batch_bytes = BATCH_BYTES

    def __init__(
        self,
        fetcher_of: Callable[[Broker], Fetcher],
        partition_max_bytes: int,
        skip_corrupt: bool = False,
        replicas: ReadReplicas | None = None,
    ) -> None:
        self._fetcher_of = fetcher_of
        self._partition_max_bytes = partition_max_bytes
        self._skip_corrupt = skip_corrupt
        self._replicas = replicas or ReadReplicas()
        self._readers: dict[Broker, BrokerReader] = {}
        self._replies = 0
        """Replies received; it chooses the next broker, so that each one has its turn."""

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """See ArrivalSource."""
        for progress in ranges:
            broker = progress.broker
            if broker not in self._readers:
                self._readers[broker] = BrokerReader(
                    self._fetcher_of(broker),
                    self._partition_max_bytes,
                    skip_corrupt=self._skip_corrupt,
                    replicas=self._replicas,
                )
            self._readers[broker].add(progress)

    def forget(self, broker: Broker) -> None:
        """Forget a broker that nobody reads from."""
        self._readers.pop(broker, None)

    def requested_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        return progress.requested_at

    def drop(self, progress: RangeProgress) -> None:
        """See ArrivalSource."""
        if progress.broker in self._readers:
            self._readers[progress.broker].drop(progress)

    def decoding(self) -> AbstractContextManager[Memory]:
        """See ArrivalSource."""
        return nullcontext(_MEMORY)

    def next(self, until: float, deadline: float) -> list[Arrival]:
        """Returns one broker's reply, the brokers in turn.

        The broker's next request has left by then, unless the broker throttles us.
        """
        active = [reader for reader in self._readers.values() if reader.active]
        arrivals = [a for reader in active if not reader.in_flight for a in _send(reader, deadline)]
        waiting = [reader for reader in active if reader.in_flight]
        if not waiting:
            pause_s = min([r.pause_s for r in active if r.active], default=float("inf"))
            time.sleep(0 if arrivals else max(0.0, min(pause_s, until - time.monotonic())))
            return arrivals
        self._replies += 1
        reader = waiting[self._replies % len(waiting)]
        arrivals += reader.receive(deadline)
        return arrivals + _send(reader, deadline)


def _send(reader: BrokerReader, deadline: float) -> list[Arrival]:
    """Send unless the broker throttles us: received records must not wait for that pause."""
    return [] if reader.pause_s else reader.send(deadline)
