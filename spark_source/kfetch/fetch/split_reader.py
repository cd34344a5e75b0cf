"""Reads one split: decodes arrivals into Arrow batches, and answers every error.

An ``ArrivalSource`` brings arrivals. ``recovery`` answers a partition's errors. A range without a
leader waits until metadata names one. Nothing loops without a pause. Without progress within
``kafkaConsumer.pollTimeoutMs``, the read fails with its first cause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from kfetch import codes
from kfetch.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectionLost,
    KfetchError,
    ReadStalled,
)
from kfetch.fetch import recovery
from kfetch.fetch.arrivals import (
    Arrival,
    BrokerFailed,
    PartitionFailed,
    RangeHandedOn,
    RecordsArrived,
    release,
)
from kfetch.fetch.part_decoder import PartDecoder
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.totals import Totals
from kfetch.model import ClusterView, OffsetRange
from kfetch.options import SourceOptions
from kfetch.reactions import Api
from kfetch.records import Memory, Slice
from kfetch.wire.cluster import Cluster
from kfetch.wire.retry import RetryPauses, clearer, may_retry

log = logging.getLogger(__name__)

T = TypeVar("T")

# A range that waits for memory or another task extends the deadline by so many poll timeouts.
_EXTENSIONS_MAX = 10
_LOCAL_WAIT = "memory (kfetch.agent.memory) or another reader of the same partition"


class ArrivalSource(Protocol):
    """Brings arrivals for ranges."""

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """Read ranges, each from its ``broker``."""

    def drop(self, progress: RangeProgress) -> None:
        """Stop reading a range."""

    def requested_since(self, progress: RangeProgress) -> float:
        """Returns the monotonic time since when the broker is asked for a range.

        It is the present time while the range still waits for memory or for another task.
        """

    @property
    def batch_bytes(self) -> int:
        """Raw bytes for one Arrow batch."""

    def decoding(self) -> AbstractContextManager[Memory]:
        """Returns a context to decode one batch in. Entering may wait until others have decoded.

        The decoder's memory may make it wait, too.
        """

    def next(self, until: float, deadline: float) -> Sequence[Arrival]:
        """Wait for arrivals until ``until`` and return them; there may be none.

        A request that is already under way may take until ``deadline``. Both are monotonic times.
        Views of records are valid until the next call.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An Arrow batch, and the new positions of its ranges."""

    batch: pa.RecordBatch
    positions: tuple[tuple[int, int], ...]
    """(index of the range, next offset)."""


class SplitReader:
    """Reads one split.

    Each answer to an error moves ranges, look-ups and the deadline together, so they stand in one
    class.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        options: SourceOptions,
        cluster: Cluster,
        source: ArrivalSource,
        totals: Totals,
        leaders: recovery.LeaderMetadata,
        replicas: ReadReplicas,
    ) -> None:
        self._options = options
        self._decoder = PartDecoder(options, totals)
        self._cluster = cluster
        self._leaders = leaders
        self._replicas = replicas
        self._source = source
        self._unfinished = {
            i: RangeProgress.of(item, i) for i, item in enumerate(ranges) if item.size > 0
        }
        self._leaderless: dict[int, RangeProgress] = {}
        """Unfinished ranges that wait for metadata to name a leader."""
        self._leaderless_since = 0.0
        """Monotonic time since when these ranges need metadata. Older metadata can't help."""
        self._failing: set[int] = set()
        """Unfinished ranges that have failed since their last progress."""
        self._lookup_at = float("inf")
        """Monotonic time of the next look-up of leaders."""
        self._first_cause: KfetchError | None = None
        self._backoff = RetryPauses.of(options.network)
        self._deadline = 0.0
        self._extended_s = 0.0
        """Seconds by which the deadline was extended since the last progress."""

    def deliveries(self) -> Generator[Delivery, None, None]:
        """Yields batches until every range is done. Raises KfetchError."""
        try:
            self._add(list(self._unfinished.values()))
            self._decoder.load()  # while an agent's brokers answer
            # Only now: compiling may take longer than the timeout.
            self._deadline = time.monotonic() + self._options.poll_timeout_s
            while self._unfinished:
                until = min(self._deadline, self._lookup_at)
                yield from self._handle(self._source.next(until, self._deadline))
                self._look_up_leaders()
                if self._unfinished and time.monotonic() >= self._deadline:
                    self._extend_deadline()
        except KfetchError:
            for progress in self._unfinished.values():  # a retry reads from leaders
                self._replicas.return_to_leader(progress)
            raise
        finally:
            for progress in self._unfinished.values():
                self._source.drop(progress)

    def _handle(self, arrivals: Sequence[Arrival]) -> Iterator[Delivery]:
        try:
            self._handle_errors(arrivals)
            with_records = [a for a in arrivals if isinstance(a, RecordsArrived)]
            for group in _grouped(with_records, self._source.batch_bytes):
                yield from self._decode_group(group)
        finally:  # also when the caller closes this reader early
            release(arrivals)

    def _handle_errors(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            match arrival:
                case BrokerFailed(error=AuthenticationFailed() as error):
                    raise error
                case RangeHandedOn():
                    refusal = self._replicas.follow(arrival, self._leaders, self._deadline)
                    if refusal is not None:
                        self._await_leader(arrival, refusal)
                    else:
                        self._resume(arrival.progress)
                case PartitionFailed() | BrokerFailed() if arrival.progress.follower is not None:
                    cause = self._replicas.leave(arrival)
                    if cause is not None:
                        self._first_cause = clearer(self._first_cause, cause)
                    self._resume(arrival.progress)
                case BrokerFailed(error=error):
                    self._await_leader(arrival, error)
                case PartitionFailed():
                    self._recover(arrival)

    def _decode_group(self, group: Sequence[RecordsArrived]) -> Iterator[Delivery]:
        """Yields a group's records: one batch, or more if they unpack to many times their size."""
        slices: Sequence[Slice] = [arrival.records for arrival in group]
        while slices:
            with self._source.decoding() as memory:
                batch, remaining = self._decoder.decode(slices, memory)
            decoded = group[: len(slices) - len(remaining)]
            positions = {a.progress.index: a.next_offset for a in decoded}
            advanced = any(arrival.advanced for arrival in decoded)
            group = group[len(decoded) :]
            if remaining:
                positions[group[0].progress.index] = remaining[0].start
                advanced |= batch is not None
            release(decoded)
            if batch is not None:
                yield Delivery(batch=batch, positions=tuple(positions.items()))
            del batch  # it is in a segment by now; free it before the next batch is decoded
            self._record_progress(decoded, advanced)
            slices = remaining

    def _record_progress(self, decoded: Sequence[RecordsArrived], advanced: bool) -> None:
        """Remove the ranges that are done, and move the deadline if a range advanced.

        This runs after the yield, because Spark may take its time with a batch.
        """
        for arrival in decoded:
            if arrival.advanced:
                self._failing.discard(arrival.progress.index)
            if arrival.is_last:
                recovery.rewritten(arrival.progress, fail=self._options.fail_on_data_loss)
                self._unfinished.pop(arrival.progress.index, None)
        if advanced:
            self._deadline = time.monotonic() + self._options.poll_timeout_s
            self._extended_s = 0.0
            self._first_cause = None
            # A range that advances says nothing about the leader of another one.
            if not self._failing & self._unfinished.keys():
                self._backoff = RetryPauses.of(self._options.network)

    def _recover(self, arrival: PartitionFailed) -> None:
        """Answer a partition's error: read on, wait for a leader, or raise."""
        progress, partition = arrival.progress, arrival.partition
        if partition.diverging is not None:
            recovery.diverged(progress, *partition.diverging, fail=self._options.fail_on_data_loss)
        elif partition.error == codes.OFFSET_OUT_OF_RANGE:
            cause = self._refused(progress, partition.error)
            if not self._ask_cluster(cause, lambda: self._reposition(progress)):
                self._await_leader(arrival, cause)
                return
        elif not codes.retriable(partition.error, Api.FETCH):
            raise self._refused(progress, partition.error)
        elif not recovery.follow(progress, partition, arrival.reply):
            self._await_leader(arrival, self._refused(progress, partition.error))
            return
        self._resume(progress)

    def _refused(self, progress: RangeProgress, code: int) -> BrokerError:
        return recovery.refused(progress, code, user=self._options.network.security.user)

    def _add(self, ranges: Sequence[RangeProgress]) -> None:
        for progress in ranges:
            self._replicas.place(progress)
        self._source.add(ranges)

    def _resume(self, progress: RangeProgress) -> None:
        if progress.done:  # a loss has cut the range short
            self._unfinished.pop(progress.index, None)
        elif progress.index in self._unfinished:
            self._add([progress])

    def _await_leader(
        self, arrival: PartitionFailed | BrokerFailed | RangeHandedOn, cause: KfetchError
    ) -> None:
        """Look for the partition's leader after a back-off: this broker can't be asked for it."""
        progress = arrival.progress
        self._leaders.announce(progress.tp.topic)
        self._leaderless_since = max(self._leaderless_since, arrival.arrived_at)
        log.info("%s at %s: %s", progress.tp, progress.leader, cause.message)
        self._first_cause = clearer(self._first_cause, cause)
        if not self._leaderless:
            self._lookup_at = time.monotonic() + self._backoff.next_pause_s()
        self._leaderless[progress.index] = progress
        self._failing.add(progress.index)

    def _look_up_leaders(self) -> None:
        """Once the back-off is over, ask the cluster for the leaders of leaderless ranges."""
        if not self._leaderless or time.monotonic() < self._lookup_at:
            return
        view = self._ask_cluster(None, self._leaders_view)
        now = self._leaderless_since = time.monotonic()
        for index, progress in list(self._leaderless.items()):
            if recovery.relocate(progress, view, now=now, fail=self._options.fail_on_data_loss):
                del self._leaderless[index]
                self._resume(progress)
        self._lookup_at = time.monotonic() + self._backoff.next_pause_s()
        if not self._leaderless:
            self._lookup_at = float("inf")

    def _leaders_view(self) -> ClusterView:
        ranges = [progress.range for progress in self._leaderless.values()]
        topic_ids = {item.tp.topic: item.topic_id for item in ranges}
        view = self._leaders.view(topic_ids.keys(), self._leaderless_since, self._deadline)
        return self._cluster.completed(view, [r.tp for r in ranges], topic_ids, self._deadline)

    def _reposition(self, progress: RangeProgress) -> bool:
        return recovery.reposition(
            progress, self._cluster, self._deadline, fail=self._options.fail_on_data_loss
        )

    def _ask_cluster(self, cause: KfetchError | None, question: Callable[[], T]) -> T:
        """Returns the cluster's answer to ``question``.

        The cluster retries up to the deadline, so its failure ends the read. ReadStalled then names
        the first cause, or ``cause`` if there was none, and not the last late answer.
        """
        try:
            return question()
        except (ConnectionLost, BrokerError) as failure:
            if not may_retry(failure):
                raise
            self._first_cause = clearer(self._first_cause or cause, failure)
            raise self._stalled() from None

    def _extend_deadline(self) -> None:
        """The deadline is over: extend it while ranges wait for memory or another task.

        A range's time starts when the broker is asked. Before that the range waits for another task
        of this executor, and Spark sets that task's pace. Raises ReadStalled if brokers were asked
        for every range for the whole timeout, or after ten timeouts: a range that waits gives its
        siblings more time, too. Before that, ranges whose log was truncated leave.
        """
        requested = [self._source.requested_since(p) for p in self._unfinished.values()]
        until = self._options.poll_timeout_s + max(requested, default=0.0)
        limit_s = _EXTENSIONS_MAX * self._options.poll_timeout_s
        if self._leaderless or until <= time.monotonic() or self._extended_s >= limit_s:
            if not self._leave_truncated():
                raise self._stalled()
            return
        self._extended_s += until - self._deadline
        self._deadline = until
        waiting = len(self._unfinished)
        log.warning("%d ranges have waited %g s for %s", waiting, self._extended_s, _LOCAL_WAIT)

    def _leave_truncated(self) -> bool:
        """Stop reading the ranges that an election has cut off. Returns whether there are any.

        A request that the deadline has cut short made its range leaderless. So these are asked too.
        """
        options = self._options
        until = time.monotonic() + min(options.network.request_timeout_s, options.poll_timeout_s)
        is_cut = partial(
            recovery.is_cut, cluster=self._cluster, deadline=until, fail=options.fail_on_data_loss
        )
        ranges = self._unfinished.values()
        cut = [one for one in ranges if self._ask_cluster(None, partial(is_cut, one))]
        for progress in cut:
            self._source.drop(progress)
            del self._unfinished[progress.index]
            self._leaderless.pop(progress.index, None)
        return bool(cut)

    def _stalled(self) -> ReadStalled:
        progress = next(iter((self._leaderless or self._unfinished).values()))
        cause = _LOCAL_WAIT if self._extended_s else "the broker sent no records"
        cause = self._first_cause.message if self._first_cause else cause
        return ReadStalled(
            f"{progress.tp}: no record from offset {progress.offset} on within "
            f"{self._options.poll_timeout_s:g} s (kafkaConsumer.pollTimeoutMs), at "
            f"{progress.broker}, {len(self._unfinished)} ranges are waiting; the first cause: "
            f"{cause}",
            **progress.tp._asdict(),
            offset=progress.offset,
        )


def _grouped(arrivals: Sequence[RecordsArrived], bytes_max: int) -> Iterator[list[RecordsArrived]]:
    """Yields groups of up to ``bytes_max`` bytes, so that small partitions share an Arrow batch."""
    group: list[RecordsArrived] = []
    group_bytes = 0
    for arrival in arrivals:
        size = len(arrival.records.data)
        if group and group_bytes + size > bytes_max:
            yield group
            group, group_bytes = [], 0
        group.append(arrival)
        group_bytes += size
    if group:
        yield group
