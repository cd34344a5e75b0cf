"""Reading one split: the loop over replies, positions, errors and decoding.

The next request leaves as soon as a reply's batch headers are known, so the broker works and the
kernel fills the socket's buffer while this process decodes. Errors of a partition go to
``recovery``; a partition without a leader waits in ``_unplaced`` until metadata names one. Nothing
loops without a pause: no progress within ``kafkaConsumer.pollTimeoutMs`` is an error that tells the
first cause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from spark_source.agent import recovery
from spark_source.agent.fetcher import Fetched, Fetcher
from spark_source.agent.progress import Progress, Queue
from spark_source.errors import ConnectionLost, KfetchError, WireError
from spark_source.model import Broker, FetchPosition, OffsetRange, TopicPartition
from spark_source.options import SourceOptions
from spark_source.records import Slice, decode, extent
from spark_source.wire import codes
from spark_source.wire.backoff import Backoff
from spark_source.wire.cluster import Cluster
from spark_source.wire.fetch import FetchReply, PartitionReply

log = logging.getLogger(__name__)

# Raw bytes that become one Arrow batch. Measured with the drain benchmark; see ARCHITECTURE.md.
_BATCH_BYTES = 4 << 20


class Reading:
    """One split being read."""

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        options: SourceOptions,
        cluster: Cluster,
        fetcher: Callable[[Broker], Fetcher],
    ) -> None:
        self._options = options
        self._fail = options.fail_on_data_loss
        self._cluster = cluster
        self._fetcher = fetcher
        self._queue = Queue(ranges)
        self._unplaced: set[TopicPartition] = set()
        self._backoff = Backoff(self._options.network)
        self._first_cause: KfetchError | None = None
        self._advanced = True
        self._fruitless = 0
        self._deadline = 0.0
        self._note_progress()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Fetch and decode until every range is done."""
        self._begin()
        while self._queue:
            for broker in self._brokers():
                slices = self._fetch_from(broker)
                yield from self._decoded(slices)
            if self._unplaced:
                self._place()

    def _begin(self) -> None:
        """Put the ranges into their brokers' sessions, and take out what earlier tasks read."""
        for broker in self._brokers():
            fetcher = self._fetcher(broker)
            current = self._of(broker)
            fetcher.keep_only(set(current))
            for tp, progress in current.items():
                fetcher.want(tp, self._position(progress))
        for broker in self._brokers():
            self._send(broker)

    def _fetch_from(self, broker: Broker) -> list[Slice]:
        """Take the broker's reply, send the next request, and give what is to be decoded."""
        fetcher = self._fetcher(broker)
        try:
            fetched = fetcher.receive(self._deadline) if fetcher.in_flight else None
        except (ConnectionLost, WireError) as cause:
            self._lost(broker, cause)
            return []
        slices = self._take(broker, fetched) if fetched else self._taken_nothing()
        self._send(broker)
        return slices

    def _taken_nothing(self) -> list[Slice]:
        """The session has to begin again. Once is routine; over and over must not be a hot loop."""
        self._fruitless += 1
        if self._fruitless > 1 and not self._backoff.wait(self._deadline):
            raise self._stuck()
        return []

    def _send(self, broker: Broker) -> None:
        if not self._of(broker):
            return
        try:
            self._fetcher(broker).send(self._deadline)
        except (ConnectionLost, WireError) as cause:
            self._lost(broker, cause)

    def _take(self, broker: Broker, fetched: Fetched) -> list[Slice]:
        slices = []
        for tp, partition in fetched.partitions.items():
            progress = self._queue.get(tp)
            if progress is None or progress.leader != broker or tp in self._unplaced:
                continue
            if partition.error or partition.diverging:
                self._mend(progress, partition, fetched.reply)
            elif len(partition.records):
                slices.append(progress.slice(partition.records))
                self._advanced |= progress.advance(extent(partition.records, progress.offset))
            self._settle(tp, broker)
        return slices

    def _settle(self, tp: TopicPartition, broker: Broker) -> None:
        """Tell the session where the partition stands now."""
        fetcher = self._fetcher(broker)
        progress = self._queue.pop_done(tp)
        if progress is None or progress.leader != broker or tp in self._unplaced:
            fetcher.want(tp, None)
        if progress is None:
            self._unplaced.discard(tp)
        elif tp not in self._unplaced:
            self._fetcher(progress.leader).want(tp, self._position(progress))

    def _mend(self, progress: Progress, partition: PartitionReply, reply: FetchReply) -> None:
        code = partition.error
        if partition.diverging is not None:
            recovery.diverged(progress, *partition.diverging, fail=self._fail)
        elif code == codes.OFFSET_OUT_OF_RANGE:
            recovery.reposition(progress, self._cluster, self._deadline, fail=self._fail)
        elif not codes.retriable(code):
            raise codes.error(
                code,
                f"fetching {progress.tp} from offset {progress.offset} at {progress.leader}",
                topic=progress.tp.topic,
                partition=progress.tp.partition,
                offset=progress.offset,
            )
        elif not _follow(progress, partition, reply):
            self._first_cause = self._first_cause or codes.error(
                code, f"fetching {progress.tp} at {progress.leader}"
            )
            self._unplaced.add(progress.tp)

    def _lost(self, broker: Broker, cause: KfetchError) -> None:
        """The broker can't be reached: perhaps others lead its partitions by now."""
        log.info("%s: %s", broker, cause.message)
        self._first_cause = self._first_cause or cause
        self._unplaced.update(self._of(broker))

    def _place(self) -> None:
        """Find the leaders of partitions that have none, after a pause."""
        if not self._backoff.wait(self._deadline):
            raise self._stuck()
        view = self._cluster.view({tp.topic for tp in self._unplaced}, self._deadline)
        for tp in sorted(self._unplaced):
            progress = self._queue.current[tp]
            before = progress.leader
            if recovery.relocate(progress, view, fail=self._fail):
                self._unplaced.discard(tp)
                self._fetcher(before).want(tp, None)
                self._settle(tp, progress.leader)
        for broker in self._brokers():
            if not self._fetcher(broker).in_flight:
                self._send(broker)

    def _decoded(self, slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
        for group in _grouped(slices):
            batch = decode(
                group,
                headers=self._options.include_headers,
                check_crcs=self._options.fetch.check_crcs,
            )
            if batch is not None:
                yield batch
        self._note_progress()

    def _note_progress(self) -> None:
        """Move the deadline: behind the yield, as Spark may take its time with a batch."""
        if not self._advanced:
            if time.monotonic() > self._deadline:
                raise self._stuck()
            return
        self._advanced = False
        self._fruitless = 0
        self._deadline = time.monotonic() + self._options.poll_timeout_s
        self._backoff = Backoff(self._options.network)
        self._first_cause = None

    def _stuck(self) -> KfetchError:
        tp, progress = next(iter(self._queue.current.items()))
        why = self._first_cause.message if self._first_cause else "the broker sent no records"
        return KfetchError(
            f"{tp}: no record from offset {progress.offset} on within "
            f"{self._options.poll_timeout_s:g} s (kafkaConsumer.pollTimeoutMs), at "
            f"{progress.leader}, {len(self._queue.current)} ranges are waiting; the first cause: "
            f"{why}",
            topic=tp.topic,
            partition=tp.partition,
            offset=progress.offset,
        )

    def _brokers(self) -> list[Broker]:
        """The leaders of what is still to be read, in a steady order."""
        return list(
            dict.fromkeys(
                p.leader for tp, p in self._queue.current.items() if tp not in self._unplaced
            )
        )

    def _of(self, broker: Broker) -> dict[TopicPartition, Progress]:
        return {
            tp: p
            for tp, p in self._queue.current.items()
            if p.leader == broker and tp not in self._unplaced
        }

    def _position(self, progress: Progress) -> FetchPosition:
        return progress.position(self._options.fetch.partition_max_bytes)


def _follow(progress: Progress, partition: PartitionReply, reply: FetchReply) -> bool:
    """Go straight to the leader that the reply names, if it is newer than ours (KIP-951)."""
    if partition.leader is None:
        return False
    node_id, epoch = partition.leader
    broker = reply.endpoints.get(node_id)
    if broker is None or epoch <= progress.leader_epoch:
        return False
    progress.leader, progress.leader_epoch = broker, epoch
    return True


def _grouped(slices: Sequence[Slice]) -> Iterator[list[Slice]]:
    """Slices together up to ``_BATCH_BYTES``, so that small partitions share an Arrow batch."""
    group: list[Slice] = []
    size = 0
    for part in slices:
        if group and size + len(part.data) > _BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(part)
        size += len(part.data)
    if group:
        yield group
