"""The driver's half of a query: from offset to offset, and from two offsets to splits.

It keeps what Spark does not: the initial offset of a new query (asked for twice, so remembered),
AvailableNow's snapshot, what the watch knows of the log. All state here can be lost: after a
restart everything follows from the checkpoint's offsets and the brokers' answers.

Planning looks at candidates only: partitions that changed since they were last looked at, and those
with a backlog. All partitions are candidates at a start, and whenever Spark names another start
than the one that was expected.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping

from kfetch.model import (
    NO_TOPIC_ID,
    ClusterView,
    Leader,
    OffsetRange,
    Split,
    TopicPartition,
)
from kfetch.offsets import Offsets, Position
from kfetch.options import SourceOptions
from kfetch.planner import TriggerDelay, admit, plan_splits
from kfetch.watch.log import Log, no_leader
from kfetch.watch.loss import LossPolicy
from kfetch.watch.pace import LONG_POLL_MS
from kfetch.watch.refresh import MetadataRefresh
from kfetch.watch.report import Report
from kfetch.watch.snapshot import Snapshot
from kfetch.watch.starting import starting_positions
from kfetch.watch.watch import Watch

# A query that another source keeps busy is not held up for longer than this.
_BUSY_WAIT_S = 0.01
# A broker that is asked for news answers within a millisecond or two; one that does not has none.
_REFRESH_S = 0.01
# A micro-batch that waits for more offsets is looked at ten times a second.
_HELD_BACK_S = 0.1


class Driver:
    """Plans the micro-batches of one query. Used by one thread, Spark's."""

    def __init__(
        self, options: SourceOptions, watch: Watch | None = None, source: Log | None = None
    ) -> None:
        self._options = options
        self._log = source or Log(options)
        self._watch = watch or Watch(options)
        self._following = MetadataRefresh(options.network, self._log, self._watch)
        self._loss = LossPolicy(self._log, self._watch, fail=options.fail_on_data_loss)
        self._query = uuid.uuid4().hex
        self._report = Report(options.stats_directory, self._query)
        self._initial: Offsets | None = None
        self._available_now = False
        self._snapshot: Snapshot | None = None
        self._latest: Offsets | None = None
        self._delay = TriggerDelay(options.max_trigger_delay_s)
        self._expected: Offsets | None = None
        """The only start for which ``_candidates`` is all there is to look at."""
        self._candidates: set[TopicPartition] = set()
        self._lacks_ids = False
        self._held_back = False
        self._moving = False
        self._hurried = False

    def initial(self) -> Offsets:
        """Where a new query starts; the same answer however often Spark asks."""
        if self._initial is None:
            view = self._log.view()
            self._log.check_subscription(view)
            positions = starting_positions(self._options.starting, self._log, view)
            self._initial = Offsets(positions=positions, topic_ids=_ids(view))
        return self._initial

    def prepare_available_now(self) -> None:
        """End the query at the log ends of the next look-up (not of now: SPARK-53560)."""
        self._available_now = True
        self._snapshot = None

    def latest(self, start: Offsets, limit: int | None, least: int | None = None) -> Offsets | None:
        """The end of the next micro-batch of about ``limit`` offsets; None if nothing is new.

        None also while fewer than ``least`` offsets wait, for ``maxTriggerDelay`` at most.
        That nothing is new is said after a long poll: what was acknowledged before the call has
        been told by then, unless its broker can't be reached.
        """
        if not self._available_now:  # whose ends are fixed
            self._watch.refresh(_REFRESH_S)
        self._begin(start)
        end = self._planned(start, limit, least)
        until = time.monotonic() + self._patience_s()
        while end is None and self._watch.wait(until - time.monotonic()):
            # With some news already, but too little, every next piece would end a wait at once.
            time.sleep(_HELD_BACK_S if self._held_back else 0)
            self._catch_up(start)
            end = self._planned(start, limit, least)
        self._expected = start if end is None else end
        self._moving, self._hurried = end is not None, False
        return end

    def committed(self) -> None:
        """A micro-batch begins. If it is none of ours, another source keeps the query busy."""
        self._hurried = not self._moving

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
        self._catch_up(end)
        if end.first_batch is not None:
            start = Offsets(positions=end.first_batch, topic_ids=end.topic_ids)
        differing = _differing(start, end)
        leaders = self._leaders(differing)
        start, end = start.only(differing), end.only(differing)
        sound = self._loss.sound(start)
        ends = self._sound_ends(start, sound, end)
        begin = self._with_new_partitions(sound, ends)
        ranges = [
            self._range(tp, begin[tp], until, _led(leaders, tp))
            for tp, until in ends.items()
            if until.offset > begin[tp].offset
        ]
        packed = plan_splits(
            ranges,
            self._options.rows_per_split,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [Split(query=self._query, ranges=together) for together in packed]

    def close(self) -> None:
        """Close the sessions and the connections."""
        self._watch.close()
        self._log.close()
        self._write_report()

    def _begin(self, start: Offsets) -> None:
        """Make ``_candidates`` all there is to look at from this start."""
        asked_now = not self._following.begun
        self._catch_up(start)
        if self._available_now and self._snapshot is None:
            self._snapshot = self._promise(fresh=asked_now)
        elif start is self._expected or start == self._expected:
            return
        self._candidates = {*self._watch.partitions, *start.positions}
        ids = self._watch.topic_ids
        named = {tp.topic for tp in start.positions}
        # A checkpoint of Spark's connector has no ids: it gets them at once.
        self._lacks_ids = any(name in ids and name not in start.topic_ids for name in named)

    def _patience_s(self) -> float:
        """How long to wait for news."""
        if self._available_now:
            return 0.0
        return _BUSY_WAIT_S if self._hurried else LONG_POLL_MS / 1000

    def _catch_up(self, known: Offsets) -> None:
        """Take what the watch has learned; ask for metadata if that is due, or needed."""
        self._candidates |= self._watch.take()
        if self._following.catch_up(known):
            self._write_report()
        self._candidates |= self._watch.take()

    def _promise(self, *, fresh: bool) -> Snapshot:
        """The snapshot of an AvailableNow query: ends that were asked for since it was prepared."""
        partitions = self._watch.partitions
        if not fresh:
            self._following.place_anew(partitions)
        ends = {tp: end for tp in partitions if (end := self._watch.end(tp)) is not None}
        return Snapshot(ends, dict(self._watch.topic_ids), self._log, self._watch)

    def _planned(self, start: Offsets, limit: int | None, least: int | None) -> Offsets | None:
        candidates = sorted(self._candidates)  # so that the first loss is told first
        sound = self._loss.sound(start.only(candidates))
        ends = self._loss.ends(self._ends(candidates), sound)
        begin = self._with_new_partitions(sound, ends)
        # A position past the log's end has been reported: what is appended there now is new.
        begin = {tp: min(p, ends[tp], key=lambda at: at.offset) for tp, p in begin.items()}
        gone = [tp for tp in candidates if tp in start.positions and not self._watch.exists(tp)]
        self._note_latest(start, ends, gone)
        changed = bool(gone) or self._lacks_ids
        self._held_back = (
            least is not None and not changed and self._waits(start, begin, ends, least)
        )
        if self._held_back:
            self._keep_candidates(start, begin, ends)
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
        if not (changed or _moved(start, begin, positions)):
            self._keep_candidates(start, begin, ends)
            return None
        end = self._ended(start, begin, positions, gone)
        self._keep_candidates(end, positions, ends)
        return end

    def _ends(self, candidates: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Where the candidates' logs end, without those of which nobody can tell now."""
        if self._snapshot is not None:
            return self._snapshot.ends(candidates)
        here = [tp for tp in candidates if self._watch.exists(tp)]
        return {tp: end for tp in here if (end := self._watch.end(tp)) is not None}

    def _keep_candidates(
        self,
        offsets: Offsets,
        reached: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, Position],
    ) -> None:
        """Look again at what has a backlog, no known end, or no place in the offsets yet."""
        self._candidates = {
            tp
            for tp in self._candidates
            if self._watch.exists(tp)
            and (
                tp not in ends
                or tp not in offsets.positions
                or ends[tp].offset != reached[tp].offset
            )
        }

    def _note_latest(
        self,
        start: Offsets,
        ends: Mapping[TopicPartition, Position],
        gone: Collection[TopicPartition],
    ) -> None:
        known = self._latest or start
        self._latest = known.replaced(ends, gone=gone, topic_ids=self._watch.topic_ids, sessions={})

    def _sound_ends(
        self, start: Offsets, sound: Offsets, end: Offsets
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
        found = self._loss.sound(Offsets(positions=wanted, topic_ids=end.topic_ids)).positions
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
        starts = self._loss.new_partitions([tp for tp in ends if tp not in sound.positions])
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
        if self._available_now or any(start.positions.get(tp) != p for tp, p in begin.items()):
            return False
        backlog = sum(max(0, end.offset - begin[tp].offset) for tp, end in ends.items())
        return not self._delay.due(backlog, least, time.monotonic())

    def _ended(
        self,
        start: Offsets,
        begin: Mapping[TopicPartition, Position],
        positions: Mapping[TopicPartition, Position],
        gone: Collection[TopicPartition],
    ) -> Offsets:
        first = self._initial is not None and self._initial == start
        known = self._watch.topic_ids
        ids = dict(start.topic_ids)
        ids.update({n: known[n] for n in {tp.topic for tp in positions} if n in known})
        if gone:
            left = {tp.topic for tp in {*start.positions, *positions} - set(gone)}
            ids = {name: topic_id for name, topic_id in ids.items() if name in left}
        self._lacks_ids = False
        return start.replaced(
            {tp: p for tp, p in positions.items() if start.positions.get(tp) != p},
            gone=gone,
            topic_ids=ids,
            sessions=self._watch.sessions(),
            first_batch={**start.positions, **begin} if first else None,
        )

    def _leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Who leads the partitions that exist, once all have a leader: an election takes a moment.
        One that resigns after this will do: the tasks look for its successor."""
        here = [tp for tp in partitions if self._watch.exists(tp)]
        found = {tp: self._watch.leader(tp) for tp in here}
        if None in found.values():
            self._following.follow(view := self._log.led_view(here))
            found = {tp: view.leader(tp) for tp in here}
        return {tp: leader for tp, leader in found.items() if leader is not None}

    def _range(
        self, tp: TopicPartition, begin: Position, until: Position, leader: Leader
    ) -> OffsetRange:
        return OffsetRange(
            tp=tp,
            topic_id=self._watch.topic_ids.get(tp.topic, NO_TOPIC_ID),
            start=begin.offset,
            end=until.offset,
            leader_epoch=leader.epoch,
            leader=leader.broker,
        )

    def _write_report(self) -> None:
        self._report.write(self._watch.stats(), self._loss.counts)


def _moved(
    start: Offsets,
    begin: Mapping[TopicPartition, Position],
    positions: Mapping[TopicPartition, Position],
) -> bool:
    """Whether the micro-batch would read or skip anything."""
    return any(
        position.offset != begin[tp].offset
        or (tp in start.positions and start.positions[tp].offset != position.offset)
        for tp, position in positions.items()
    )


def _ids(view: ClusterView) -> dict[str, uuid.UUID]:
    return {name: topic.topic_id for name, topic in view.topics.items() if topic.topic_id.int}


def _differing(start: Offsets, end: Offsets) -> list[TopicPartition]:
    """The partitions that a micro-batch reads, skips, or has for the first time."""
    before = start.positions.get
    # A position that was carried along is the same object, so that 10,000 of them cost 1 ms.
    moved = {tp for tp, p in end.positions.items() if (q := before(tp)) is not p and q != p}
    anew = {name for name, i in end.topic_ids.items() if start.topic_ids.get(name, i) != i}
    return sorted(moved | ({tp for tp in end.positions if tp.topic in anew} if anew else set()))


def _led(leaders: Mapping[TopicPartition, Leader], tp: TopicPartition) -> Leader:
    if tp not in leaders:
        raise no_leader(tp)
    return leaders[tp]
