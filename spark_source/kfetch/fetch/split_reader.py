"""Reading one split: from arrivals to Arrow batches, with every error answered.

``ArrivalSource`` brings arrivals: ``InlineSource`` fetches in this very thread, the agent's threads
fetch for many readers at once. Errors of a partition go to ``recovery``; a range without a
leader waits until metadata names one. Nothing loops without a pause: no progress within
``kafkaConsumer.pollTimeoutMs`` is an error that tells the first cause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from kfetch import codes
from kfetch.decoding import decode
from kfetch.errors import BrokerError, ConnectionLost, CorruptBatch, KfetchError, ReadStalled
from kfetch.fetch import events, recovery, warm
from kfetch.fetch.broker_reader import Arrival, BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.limits import BATCH_BYTES
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker, OffsetRange
from kfetch.options import SourceOptions
from kfetch.records import Columns, Slice
from kfetch.wire.cluster import Cluster
from kfetch.wire.retry import RetryPauses

log = logging.getLogger(__name__)

T = TypeVar("T")

# How often the deadline may pass while a range waits for memory, or for another reader.
_HELD_MAX = 10
_HELD_BY = "memory (kfetch.agent.memory) or another reader of the same partition"


class ArrivalSource(Protocol):
    """Where arrivals come from."""

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """Read ranges, each from its leader."""

    def drop(self, progress: RangeProgress) -> None:
        """Read a range no longer."""

    def asked_since(self, progress: RangeProgress) -> float:
        """Since when (monotonic time) the broker is asked for a range: now, while the range still
        waits for this side, which is for memory or for another reader."""

    @property
    def batch_bytes(self) -> int:
        """Raw bytes that are to become one Arrow batch."""

    def decoding(self) -> AbstractContextManager[None]:
        """Held while a batch is decoded: entering waits for one of few places."""

    def next(self, until: float, deadline: float) -> Sequence[Arrival]:
        """What arrived; none at ``until`` if there is nothing to wait for. Views live until the
        next call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A batch, and where its ranges stand behind it."""

    batch: pa.RecordBatch
    positions: tuple[tuple[int, int], ...]
    """(index of the range, next offset)."""


class InlineSource:
    """Fetches when asked, in the caller's thread: the supply of ``inline``."""

    batch_bytes = BATCH_BYTES

    def __init__(
        self,
        fetcher: Callable[[Broker], Fetcher],
        partition_max_bytes: int,
        skip_corrupt: bool = False,
    ) -> None:
        self._fetcher = fetcher
        self._partition_max_bytes = partition_max_bytes
        self._skip_corrupt = skip_corrupt
        self._lanes: dict[Broker, BrokerReader] = {}
        self._turn = 0

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """See ArrivalSource."""
        for progress in ranges:
            broker = progress.leader
            if broker not in self._lanes:
                self._lanes[broker] = BrokerReader(
                    self._fetcher(broker),
                    self._partition_max_bytes,
                    skip_corrupt=self._skip_corrupt,
                )
            self._lanes[broker].add(progress)

    def asked_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        return progress.asked_since

    def drop(self, progress: RangeProgress) -> None:
        """See ArrivalSource."""
        if progress.leader in self._lanes:
            self._lanes[progress.leader].drop(progress)

    def decoding(self) -> AbstractContextManager[None]:
        """See ArrivalSource."""
        return nullcontext()

    def next(self, until: float, deadline: float) -> list[Arrival]:
        """One broker's reply, the brokers by turns; the broker's next request has left then."""
        lanes = [lane for lane in self._lanes.values() if lane.active]
        arrivals = [a for lane in lanes if not lane.in_flight for a in _sent(lane, deadline)]
        flying = [lane for lane in lanes if lane.in_flight]
        if not flying:
            pause_s = min([lane.pause_s for lane in lanes if lane.active], default=float("inf"))
            time.sleep(0 if arrivals else max(0.0, min(pause_s, until - time.monotonic())))
            return arrivals
        self._turn += 1
        lane = flying[self._turn % len(flying)]
        arrivals += lane.receive(deadline)
        return arrivals + _sent(lane, deadline)


def _sent(lane: BrokerReader, deadline: float) -> list[Arrival]:
    """Send unless the broker wants to be left alone; what was received must not wait for that."""
    return [] if lane.pause_s else lane.send(deadline)


class SplitReader:
    """One split being read."""

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        options: SourceOptions,
        cluster: Cluster,
        supply: ArrivalSource,
        sink: events.Sink = events.story,
    ) -> None:
        self._options = options
        self._fail = options.fail_on_data_loss
        self._columns = Columns(
            headers=options.include_headers,
            leader_epoch=options.include_leader_epoch,
            serialized_sizes=options.include_serialized_sizes,
        )
        self._cluster = cluster
        self._supply = supply
        self._sink = sink
        self._open = {
            i: RangeProgress.of(item, i) for i, item in enumerate(ranges) if item.size > 0
        }
        self._unplaced: dict[int, RangeProgress] = {}
        self._retry_at = float("inf")
        self._first_cause: KfetchError | None = None
        self._backoff = RetryPauses(options.network)
        self._deadline = 0.0
        self._held_s = 0.0

    def deliveries(self) -> Generator[Delivery, None, None]:
        """Fetch and decode until every range is done. Raises errors below KfetchError."""
        try:
            self._supply.add(list(self._open.values()))
            warm.load()  # while an agent's brokers answer
            # Not before: to compile may take longer than the timeout.
            self._deadline = time.monotonic() + self._options.poll_timeout_s
            while self._open:
                until = min(self._deadline, self._retry_at)
                yield from self._handled(self._supply.next(until, self._deadline))
                self._find_leaders()
                if time.monotonic() >= self._deadline:
                    self._wait_on()
        finally:
            for progress in self._open.values():
                self._supply.drop(progress)

    def _handled(self, arrivals: Sequence[Arrival]) -> Iterator[Delivery]:
        try:
            yield from self._decoded(arrivals)
        finally:  # of a reader that was given up too
            for arrival in arrivals:
                arrival.release()

    def _decoded(self, arrivals: Sequence[Arrival]) -> Iterator[Delivery]:
        for arrival in arrivals:
            if arrival.cause is not None:
                self._lost_leader(arrival.progress, arrival.cause)
            elif arrival.trouble is not None:
                self._mend(arrival)
        with_records = [a for a in arrivals if a.records is not None]
        for group in _grouped(with_records, self._supply.batch_bytes):
            moved = {a.progress.index: a.next_offset for a in group}
            with self._supply.decoding():
                batch = self._decode([a.records for a in group if a.records is not None])
            for arrival in group:
                arrival.release()
            if batch is not None:
                yield Delivery(batch=batch, positions=tuple(moved.items()))
            del batch  # in a segment by now: it must not lie here until the next one is decoded
            self._note(group)

    def _decode(self, slices: Sequence[Slice]) -> pa.RecordBatch | None:
        began = time.monotonic()
        batch = decode(
            slices,
            columns=self._columns,
            check_crcs=self._options.fetch.check_crcs,
            on_corrupt=self._skip if self._options.skip_corrupt_batches else None,
        )
        fact = events.Decoded(
            records=batch.num_rows if batch is not None else 0,
            size=sum(len(part.data) for part in slices),
            seconds=time.monotonic() - began,
        )
        self._sink(fact)
        return batch

    def _skip(self, error: CorruptBatch) -> None:
        """Leave a damaged batch out, as kfetch.onCorruptBatch=skip asks."""
        log.warning("left out, and its records are lost: %s", error.message)
        self._sink(events.Skipped(problem=error.message))

    def _note(self, group: Sequence[Arrival]) -> None:
        """Leave the ranges that are done, and move the deadline if there was progress.

        This runs behind the yield: Spark may take its time with a batch.
        """
        advanced = False
        for arrival in group:
            advanced |= arrival.advanced
            if arrival.next_offset >= arrival.progress.end:
                self._open.pop(arrival.progress.index, None)
        if advanced:
            self._deadline = time.monotonic() + self._options.poll_timeout_s
            self._held_s = 0.0
            self._backoff = RetryPauses(self._options.network)
            self._first_cause = None

    def _mend(self, arrival: Arrival) -> None:
        """Answer a partition's error, and read on, elsewhere perhaps."""
        progress, partition, reply = arrival.progress, arrival.trouble, arrival.reply
        if partition is None or reply is None:
            raise RuntimeError("an arrival without trouble needs no mending")
        if partition.diverging is not None:
            recovery.diverged(progress, *partition.diverging, fail=self._fail)
        elif partition.error == codes.OFFSET_OUT_OF_RANGE:
            cause = recovery.refused(progress, partition.error)
            if not self._asked(cause, lambda: self._reposition(progress)):
                self._lost_leader(progress, cause)
                return
        elif not codes.retriable(partition.error):
            raise recovery.refused(progress, partition.error)
        elif not recovery.follow(progress, partition, reply):
            self._lost_leader(progress, recovery.refused(progress, partition.error))
            return
        self._resume(progress)

    def _resume(self, progress: RangeProgress) -> None:
        if progress.done:  # a loss has cut the range short
            self._open.pop(progress.index, None)
        elif progress.index in self._open:
            self._supply.add([progress])

    def _lost_leader(self, progress: RangeProgress, cause: KfetchError) -> None:
        """The broker can't be asked, or leads the partition no longer: look for another, later."""
        log.info("%s at %s: %s", progress.tp, progress.leader, cause.message)
        self._first_cause = self._first_cause or cause
        if not self._unplaced:
            self._retry_at = time.monotonic() + self._backoff.next_pause_s()
        self._unplaced[progress.index] = progress

    def _find_leaders(self) -> None:
        """Once the pause is over, ask who leads the partitions that nobody leads."""
        if not self._unplaced or time.monotonic() < self._retry_at:
            return
        topics = {progress.tp.topic for progress in self._unplaced.values()}
        view = self._asked(None, lambda: self._cluster.view(topics, self._deadline))
        for index, progress in list(self._unplaced.items()):
            if recovery.relocate(progress, view, fail=self._fail):
                del self._unplaced[index]
                self._resume(progress)
        self._retry_at = time.monotonic() + self._backoff.next_pause_s()
        if not self._unplaced:
            self._retry_at = float("inf")

    def _reposition(self, progress: RangeProgress) -> bool:
        return recovery.reposition(progress, self._cluster, self._deadline, fail=self._fail)

    def _asked(self, cause: KfetchError | None, question: Callable[[], T]) -> T:
        """The answer of the cluster to ``question``, asked because of ``cause``.

        It is tried again up to the deadline, so a failure ends the reading: for its first cause,
        and not for the last answer that came too late.
        """
        try:
            return question()
        except (ConnectionLost, BrokerError) as failed:
            if isinstance(failed, BrokerError) and not failed.context.get("retriable"):
                raise
            self._first_cause = self._first_cause or cause or failed
            raise self._stuck() from None

    def _wait_on(self) -> None:
        """The deadline is over. It begins when the broker is asked, and not while a range waits for
        another task of this executor, whose pace is Spark's; but that has a limit too. Raises
        ReadStalled."""
        asked = [self._supply.asked_since(p) for p in self._open.values()]
        until = self._options.poll_timeout_s + max(asked, default=0.0)
        limit_s = _HELD_MAX * self._options.poll_timeout_s
        if self._unplaced or until <= time.monotonic() or self._held_s >= limit_s:
            raise self._stuck()
        self._held_s += until - self._deadline
        self._deadline = until
        log.warning("%d ranges have waited %g s for %s", len(self._open), self._held_s, _HELD_BY)

    def _stuck(self) -> ReadStalled:
        progress = next(iter((self._unplaced or self._open).values()))
        why = _HELD_BY if self._held_s else "the broker sent no records"
        why = self._first_cause.message if self._first_cause else why
        return ReadStalled(
            f"{progress.tp}: no record from offset {progress.offset} on within "
            f"{self._options.poll_timeout_s:g} s (kafkaConsumer.pollTimeoutMs), at "
            f"{progress.leader}, {len(self._open)} ranges are waiting; the first cause: {why}",
            topic=progress.tp.topic,
            partition=progress.tp.partition,
            offset=progress.offset,
        )


def _grouped(arrivals: Sequence[Arrival], most: int) -> Iterator[list[Arrival]]:
    """Arrivals together up to ``most`` bytes, so that small partitions share an Arrow batch."""
    group: list[Arrival] = []
    size = 0
    for arrival in arrivals:
        more = len(arrival.records.data) if arrival.records else 0
        if group and size + more > most:
            yield group
            group, size = [], 0
        group.append(arrival)
        size += more
    if group:
        yield group
