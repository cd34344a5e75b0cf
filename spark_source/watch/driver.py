"""The driver's half of a query: from offset to offset, and from two offsets to splits.

It keeps what Spark does not: the initial offset of a new query (asked for twice, so remembered),
AvailableNow's snapshot, the epochs under which positions were last checked. All state here can be
lost: after a restart everything follows from the checkpoint's offsets and the brokers' answers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping

from spark_source.errors import OptionError, PartitionGone
from spark_source.model import ClusterView, OffsetRange, Split, TopicPartition
from spark_source.offsets import Offsets, Position
from spark_source.options import EARLIEST, LATEST, SourceOptions
from spark_source.planner import TriggerDelay, admit, plan_splits
from spark_source.watch.log import Log, no_leader
from spark_source.watch.loss import LossPolicy

# An idle query asks for new data ten times a second, not in Spark's rhythm of 10 ms.
_POLL_S = 0.1


class Driver:
    """Plans the micro-batches of one query. Used by one thread, Spark's."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._log = Log(options)
        self._loss = LossPolicy(self._log, fail=options.fail_on_data_loss)
        self._query = uuid.uuid4().hex
        self._initial: Offsets | None = None
        self._available_now = False
        self._snapshot: dict[TopicPartition, Position] | None = None
        self._latest: Offsets | None = None
        self._delay = TriggerDelay(options.max_trigger_delay_s)
        self._asked_at = 0.0

    def initial(self) -> Offsets:
        """Where a new query starts; the same answer however often Spark asks."""
        if self._initial is None:
            view = self._log.view()
            self._log.check_subscription(view)
            self._initial = Offsets(positions=self._starting(view), topic_ids=_ids(view))
        return self._initial

    def prepare_available_now(self) -> None:
        """End the query at the log ends of the next look-up (not of now: SPARK-53560)."""
        self._available_now = True
        self._snapshot = None

    def latest(self, start: Offsets, limit: int | None, least: int | None = None) -> Offsets | None:
        """The end of the next micro-batch of about ``limit`` offsets; None if nothing is new.

        None also while fewer than ``least`` offsets wait, for ``maxTriggerDelay`` at most.
        """
        self._pace()
        view = self._log.settled_view(start.positions)
        sound = self._loss.sound(start, view)
        ends = self._ends(view, sound)
        begin = self._with_new_partitions(sound, ends)
        # A position past the log's end has been reported: what is appended there now is new.
        begin = {tp: min(p, ends[tp], key=lambda at: at.offset) for tp, p in begin.items()}
        self._latest = Offsets(positions=ends, topic_ids=_ids(view))
        if least is not None and self._waits(start, begin, ends, least):
            return None
        admitted = admit(
            {tp: p.offset for tp, p in begin.items()},
            {tp: p.offset for tp, p in ends.items()},
            limit,
        )
        # A position that stays keeps its epoch, so that the JSON of an idle partition stays too.
        positions = {
            tp: begin[tp] if begin[tp].offset == offset else Position(offset, ends[tp].leader_epoch)
            for tp, offset in admitted.items()
        }
        if _lacks_ids(start, view) or self._moved(start, begin, positions):
            return self._ended(start, begin, positions, view)
        return None

    def last_known(self) -> Offsets | None:
        """The log ends as of the last look-up, for progress reports."""
        return self._latest

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """What the tasks of the micro-batch between two offsets read.

        After a restart this can be the first call, so positions are checked here too. A retried
        first batch starts where its own end says.
        """
        if start == end:  # also if it is the end of batch 0, whose ``from`` is behind it then
            return []
        view = self._log.settled_view(end.positions)
        if end.first_batch is not None:
            start = Offsets(positions=end.first_batch, topic_ids=end.topic_ids)
        sound = self._loss.sound(start, view)
        ends = self._sound_ends(start, sound, end, view)
        begin = self._with_new_partitions(sound, ends)
        moved = {tp: end for tp, end in ends.items() if end.offset > begin[tp].offset}
        if any(view.leader(tp) is None for tp in moved):
            view = self._log.led_view(moved)
        ranges = [self._range(tp, begin[tp], end, view) for tp, end in moved.items()]
        packed = plan_splits(
            ranges,
            self._options.rows_per_split,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [Split(query=self._query, ranges=together) for together in packed]

    def close(self) -> None:
        """Close the connections."""
        self._log.close()

    def _starting(self, view: ClusterView) -> dict[TopicPartition, Position]:
        partitions = self._log.partitions(view)
        starting = self._options.starting
        wanted = starting.specific
        if wanted is None:
            wanted = dict.fromkeys(partitions, starting.default)
        elif set(wanted) != set(partitions):
            raise _mismatch(wanted, partitions)
        found = self._log.starts(tp for tp, offset in wanted.items() if offset == EARLIEST)
        ends = self._log.ends(tp for tp, offset in wanted.items() if offset != EARLIEST)
        # A numbered position has no epoch of its own: the leader's vouches for what lies below.
        for tp, end in ends.items():
            offset = end.offset if wanted[tp] == LATEST else wanted[tp]
            found[tp] = Position(offset, end.leader_epoch if offset <= end.offset else -1)
        return found

    def _ends(self, view: ClusterView, sound: Offsets) -> dict[TopicPartition, Position]:
        if self._snapshot is None:
            partitions = self._log.partitions(view)
            ends = self._loss.ends(partitions, sound)
            if self._available_now:
                self._snapshot = ends
            return ends
        gone = [str(tp) for tp in self._snapshot if not view.exists(tp)]
        if gone:
            raise PartitionGone(
                f"{', '.join(gone)}: lost while an AvailableNow query was reading them; start the "
                "query again to read what is left",
                partitions=gone,
            )
        return self._snapshot

    def _sound_ends(
        self, start: Offsets, sound: Offsets, end: Offsets, view: ClusterView
    ) -> dict[TopicPartition, Position]:
        """The ends of what can be read up to them.

        An end that was planned before a loss says nothing of the log of now: what the log holds
        below it would be read here and, the loss being found again, by the next micro-batch too.
        """
        kept = {tp for tp, p in start.positions.items() if sound.positions.get(tp) == p}
        wanted = {
            tp: p
            for tp, p in end.positions.items()
            if tp in kept or tp not in start.positions or tp in sound.positions
        }
        found = self._loss.sound(Offsets(positions=wanted, topic_ids=end.topic_ids), view).positions
        return {
            tp: found[tp]
            for tp, p in wanted.items()
            # A kept range that was cut is read up to the cut, where the next micro-batch goes on.
            if found.get(tp) == p or (tp in kept and tp in found and found[tp].offset < p.offset)
        }

    def _with_new_partitions(
        self, sound: Offsets, ends: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, Position]:
        """Where each partition of ``ends`` begins; new ones at their earliest offset."""
        new = [tp for tp in ends if tp not in sound.positions]
        starts = self._loss.new_partitions(new)
        return {tp: sound.positions.get(tp) or starts[tp] for tp in ends}

    def _waits(
        self,
        start: Offsets,
        begin: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, Position],
        least: int,
    ) -> bool:
        """Whether the micro-batch is not due yet.

        What is not in the checkpoint yet does not wait: a loss would be told again at every
        look-up, and a new partition might lose its beginning. Nor does AvailableNow, which has to
        end: what is short of ``least`` would never be read.
        """
        if self._available_now or begin != start.positions:
            return False
        backlog = sum(max(0, end.offset - begin[tp].offset) for tp, end in ends.items())
        return not self._delay.due(backlog, least, time.monotonic())

    def _moved(
        self,
        start: Offsets,
        begin: Mapping[TopicPartition, Position],
        positions: Mapping[TopicPartition, Position],
    ) -> bool:
        """Whether the micro-batch would read or skip anything, or a partition is gone."""
        return (
            any(positions[tp].offset != begin[tp].offset for tp in positions)
            or any(tp not in positions for tp in start.positions)
            or any(
                tp in start.positions and start.positions[tp].offset != position.offset
                for tp, position in positions.items()
            )
        )

    def _ended(
        self,
        start: Offsets,
        begin: Mapping[TopicPartition, Position],
        positions: Mapping[TopicPartition, Position],
        view: ClusterView,
    ) -> Offsets:
        first = self._initial is not None and self._initial == start
        return Offsets(
            positions=positions,
            topic_ids=_ids(view),
            first_batch=dict(begin) if first else None,
        )

    def _range(
        self, tp: TopicPartition, begin: Position, until: Position, view: ClusterView
    ) -> OffsetRange:
        leader = view.leader(tp)
        if leader is None:
            raise no_leader(tp)
        return OffsetRange(
            tp=tp,
            topic_id=view.topics[tp.topic].topic_id,
            start=begin.offset,
            end=until.offset,
            leader_epoch=leader.epoch,
            leader=leader.broker,
        )

    def _pace(self) -> None:
        time.sleep(max(0.0, self._asked_at + _POLL_S - time.monotonic()))
        self._asked_at = time.monotonic()


def _ids(view: ClusterView) -> dict[str, uuid.UUID]:
    return {name: topic.topic_id for name, topic in view.topics.items() if topic.topic_id.int}


def _lacks_ids(start: Offsets, view: ClusterView) -> bool:
    """Whether topics have ids by now that the offset does not have: the connector's, as a rule."""
    named = {tp.topic for tp in start.positions}
    return any(topic in named and topic not in start.topic_ids for topic in _ids(view))


def _mismatch(
    wanted: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> OptionError:
    missing = sorted(set(partitions) - set(wanted))
    extra = sorted(set(wanted) - set(partitions))
    told = [f"it lacks {', '.join(map(str, missing))}"] if missing else []
    told += [f"{', '.join(map(str, extra))} are not subscribed or don't exist"] if extra else []
    return OptionError(
        "option startingOffsets must name every subscribed partition and no other: "
        f"{'; '.join(told)} (use -1 in the offset field for latest, -2 for earliest)",
        option="startingOffsets",
    )
