"""Plans the micro-batches of one query in the driver: offsets, and splits between two offsets.

The driver keeps everything that Spark does not keep: the initial offsets of a new query (Spark asks
twice), the end of an AvailableNow query, and the watch. All of it can be lost. After a restart it
follows from the checkpoint's offsets and the brokers' answers.

Planning looks only at ``candidates``.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from kfetch.errors import CheckpointError
from kfetch.fetch.totals import write_driver_stats
from kfetch.model import NO_TOPIC_ID, Split, TopicPartition
from kfetch.offsets import Offsets, Position, Positions
from kfetch.options import SourceOptions
from kfetch.planner import TriggerDelay, admit
from kfetch.watch.available_now import AvailableNowEnds
from kfetch.watch.candidates import Candidates
from kfetch.watch.group_commits import GroupCommits
from kfetch.watch.initial_positions import bound_positions
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.metadata_refresh import MetadataRefresh
from kfetch.watch.poll_pause import LONG_POLL_MS
from kfetch.watch.position_check import PositionCheck
from kfetch.watch.split_planning import SplitPlanning
from kfetch.watch.watch import Watch
from kfetch.wire.retry import Retries

# While another source keeps the query busy, this source delays it no longer than this.
_BUSY_WAIT_S = 0.01
# A broker that has new data answers within two milliseconds. Silence means that there is none.
_POLL_WAIT_S = 0.01
# A micro-batch that waits for more offsets is checked ten times a second.
_HELD_BACK_PAUSE_S = 0.1


class Driver:
    """Plans the micro-batches of one query. Only Spark's thread uses it.

    It joins the parts of the watch, and keeps what one planning tells the next one. It has many
    attributes, because the parts share one ``OffsetLookup`` and one ``WatchState``. Each part is a
    class of its own. The other attributes are those that a planning reads and changes.
    """

    def __init__(
        self,
        options: SourceOptions,
        watch: Watch | None = None,
        lookup: OffsetLookup | None = None,
    ) -> None:
        self._options = options
        self._lookup = lookup or OffsetLookup(options)
        self._watch = watch or Watch(options)
        self._state = self._watch.state
        self._lookup.report_to(self._watch.report)
        self._lookup.retry_by(Retries.of_checkpoint(self._options))
        self._refresh = MetadataRefresh(options.network, self._lookup, self._watch)
        self._check = PositionCheck(self._lookup, self._state, fail=options.fail_on_data_loss)
        self._split_planning = SplitPlanning(
            options, self._lookup, self._state, self._refresh, self._check
        )
        group = options.reports.commit_group
        self._commits = GroupCommits(group, options) if group else None
        self._initial: Offsets | None = None
        self._available_now = False
        self._available_now_ends: AvailableNowEnds | None = None
        self.log_ends: Offsets | None = None
        """The log ends of the last planning, for progress reports."""
        self._candidates = Candidates()
        self._pace = _Pace(options.planning.max_delay_s)

    def initial_offsets(self) -> Offsets:
        """Returns where a new query starts, the same offsets for every call."""
        if self._initial is None:
            self._lookup.retry_by(Retries.of_new_query(self._options))
            view = self._lookup.cluster_view()
            self._lookup.check_subscription(view)
            positions = bound_positions(self._options.starting, self._lookup, view)
            if not self._options.starting.group:
                self._check.note_valid(positions, view)
            self._initial = Offsets(positions=positions, topic_ids=view.topic_ids)
        return self._initial

    def prepare_available_now(self) -> None:
        """End the query at the log ends of the next planning, not of now (SPARK-53560)."""
        self._available_now = True
        self._available_now_ends = None

    def next_end(
        self, start: Offsets, max_offsets: int | None, min_offsets: int | None = None
    ) -> Offsets | None:
        """Returns the end of the next micro-batch; None if nothing is new.

        The micro-batch has about ``max_offsets`` offsets. With fewer than ``min_offsets`` it waits,
        and the result is None, for ``maxTriggerDelay`` at most. The result is None only after a
        long poll. The watch then knows every record that was acknowledged before the call, unless
        a broker is unreachable.
        """
        if self._commits and start != self._initial:
            self._commits.note(start.positions)
        if not self._available_now:  # an AvailableNow query has fixed ends
            self._watch.poll_resting(_POLL_WAIT_S)
        self._begin(start)
        self._lookup.retry_by(Retries.of_checkpoint(self._options))
        end = self._plan(start, max_offsets, min_offsets)
        patience_s = 0.0 if self._available_now else self._pace.patience_s
        deadline = time.monotonic() + patience_s
        while end is None and self._watch.wait_for_change(deadline - time.monotonic()):
            time.sleep(self._pace.pause_s)
            self._update_candidates(start)
            end = self._plan(start, max_offsets, min_offsets)
        reached = start if end is None else end
        self._candidates.expect(reached)
        self._watch.backlog.planned(start, reached, time.time())
        self._pace.planned(batch=end is not None)
        return end

    def note_commit(self) -> None:
        """Note that a micro-batch begins. It may be another source's, which keeps Spark busy."""
        self._pace.batch_begins()

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Returns the splits of the micro-batch between two offsets.

        After a restart this may be the first call, so it checks the positions too. A retried first
        batch starts where its end offset says. Raises CheckpointError if Spark's connector planned
        that batch, and ``startingOffsets`` may give another start than before the restart.
        """
        if end.by_connector and not start.by_connector:  # the start is ``initial_offsets``
            self._check_start_of_connector(start.restricted_to(end.positions))
        if start == end:  # also the end of batch 0, whose ``from`` lies before it
            return []
        self._update_candidates(end)
        self._watch.backlog.planned(start, end, time.time())
        start = start.with_returned(end.positions, end.topic_ids)
        if end.first_batch is not None:
            start = Offsets(positions=end.first_batch, topic_ids=end.topic_ids)
        return self._split_planning.splits(start, end)

    def _check_start_of_connector(self, start: Offsets) -> None:
        """Raises CheckpointError if batch 0, which Spark's connector planned, may start elsewhere.

        The connector keeps the start in a file of the checkpoint that Spark does not show to Python
        sources. A log end or a log start of now may lie behind it, so records would be lost.
        """
        offsets = {tp: position.offset for tp, position in start.positions.items()}
        if not self._options.starting.always_gives(offsets):
            option = self._options.starting.option
            raise CheckpointError(
                "Spark's connector planned batch 0 of this checkpoint, and the batch is not done. "
                f"kfetch cannot tell where it starts: {option} may give other offsets now",
                action="Let the connector finish the batch, or set startingOffsets to the offsets "
                "that kfetch checkpoint show prints",
            )

    def close(self) -> None:
        """Close the sessions and the connections."""
        if self._commits:
            self._commits.close()
        self._watch.close()
        self._lookup.close()
        self._write_statistics()

    def _begin(self, start: Offsets) -> None:
        """Make the candidates complete for this start."""
        has_fresh_ends = not self._refresh.initialized
        self._update_candidates(start)
        if self._available_now and self._available_now_ends is None:
            self._available_now_ends = self._fix_ends(fresh=has_fresh_ends)
        elif self._candidates.are_complete_for(start):
            return
        self._candidates.take_all(self._state.partitions, start, self._state.topic_ids)

    def _update_candidates(self, known: Offsets) -> None:
        """Add the changed partitions to the candidates; refresh metadata if it is due or needed."""
        self._candidates.add(self._watch.take_changed())
        if self._refresh.refresh_if_due(known):
            self._write_statistics()
        self._candidates.add(self._watch.take_changed())

    def _fix_ends(self, *, fresh: bool) -> AvailableNowEnds:
        """Fix the ends of an AvailableNow query. They are looked up again unless ``fresh``.

        A session may refuse a partition just then. The query reads it all the same.
        """
        if not fresh:
            self._refresh.refresh_log_ends(list(self._state.partitions))
        ends = dict(self._state.known_log_ends())
        return AvailableNowEnds(ends, dict(self._state.topic_ids), self._lookup, self._state)

    def _plan(
        self, start: Offsets, max_offsets: int | None, min_offsets: int | None
    ) -> Offsets | None:
        unread = self._split_planning.unread(start)
        # Such a partition leaves the offsets once, and comes back where its range starts.
        returned = {tp for tp in unread if self._is_same_topic(tp, start)}
        self._candidates.add(returned)
        candidates = self._candidates.sorted_without(returned)
        existing = [tp for tp in candidates if self._state.exists(tp)]
        known = start.with_returned(existing, self._state.topic_ids)
        valid = self._check.valid_offsets(known.restricted_to(candidates))
        ends = self._check.valid_log_ends(self._ends(candidates), valid)
        starts = self._check.batch_starts(valid, ends)
        # A start past the log end is a reported loss. Records appended at the log end are new.
        starts = {tp: min(p, ends[tp], key=lambda at: at.offset) for tp, p in starts.items()}
        endless = [tp for tp in candidates if tp in start.positions and tp not in ends]
        gone = [tp for tp in endless if self._leaves(tp, start)] + sorted(returned)
        self._note_log_ends(start, ends, gone)
        must_plan = bool(gone) or self._candidates.lack_topic_ids
        may_wait = not must_plan and self._may_wait(start, starts)
        if self._pace.holds_back(starts, ends, min_offsets if may_wait else None):
            self._keep_candidates(start, starts, ends)
            return None
        positions = _admitted(starts, ends, max_offsets)
        if not (must_plan or _has_moved(start, starts, positions)):
            self._keep_candidates(start, starts, ends)
            return None
        last = {tp: unread.get(tp, start.positions[tp]) for tp in gone}
        end = self._end_offsets(start, starts, positions, last)
        self._keep_candidates(end, positions, ends)
        return end

    def _is_same_topic(self, tp: TopicPartition, offsets: Offsets) -> bool:
        """Returns whether the partition exists, and its topic still has the id of ``offsets``."""
        topic_id = self._state.topic_ids.get(tp.topic)
        return self._state.exists(tp) and topic_id == offsets.topic_id(tp.topic)

    def _leaves(self, tp: TopicPartition, start: Offsets) -> bool:
        """Returns whether a partition of ``start`` without a known log end leaves the offsets.

        It is gone. Or its topic was created again: its offset must not get the new topic's id. Then
        it comes back as a new partition.
        """
        ids = {start.topic_id(tp.topic), self._state.topic_ids.get(tp.topic, NO_TOPIC_ID)}
        return not self._state.exists(tp) or (len(ids) > 1 and NO_TOPIC_ID not in ids)

    def _ends(self, candidates: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Returns the ends up to which candidates may be read, without unknown log ends."""
        if self._available_now_ends is not None:
            return self._available_now_ends.log_ends(candidates)
        existing = [tp for tp in candidates if self._state.exists(tp)]
        return {tp: end for tp in existing if (end := self._state.log_end(tp)) is not None}

    def _keep_candidates(self, offsets: Offsets, reached: Positions, ends: Positions) -> None:
        self._candidates.keep(offsets, reached, ends, self._state.exists)

    def _note_log_ends(
        self, start: Offsets, ends: Positions, gone: Collection[TopicPartition]
    ) -> None:
        last = self.log_ends or start
        topic_ids = self._state.topic_ids
        self.log_ends = last.with_moved(ends, gone=gone, topic_ids=topic_ids, left={})

    def _may_wait(self, start: Offsets, starts: Positions) -> bool:
        """Returns whether the micro-batch may wait for more offsets.

        Two cases never wait. A position that is not in the checkpoint yet: every planning would
        report a loss again, and a new partition might lose its first records. An AvailableNow
        query: it would never read the last offsets if they are fewer than ``min_offsets``.
        """
        is_known = all(start.positions.get(tp) == p for tp, p in starts.items())
        return is_known and not self._available_now

    def _end_offsets(
        self,
        start: Offsets,
        starts: Positions,
        positions: Positions,
        gone: Positions,
    ) -> Offsets:
        """Returns the end of a micro-batch. The end of batch 0 carries its start too.

        ``gone``: the next offsets to read of partitions that leave.
        """
        is_first = self._initial is not None and self._initial == start
        known_ids = self._state.topic_ids
        ids = dict(start.topic_ids)
        ids.update({n: known_ids[n] for n in {tp.topic for tp in positions} if n in known_ids})
        if gone:
            topics = {tp.topic for tp in {*start.positions, *positions} - set(gone)}
            ids = {name: topic_id for name, topic_id in ids.items() if name in topics}
        self._candidates.lack_topic_ids = False
        return start.with_moved(
            {tp: p for tp, p in positions.items() if start.positions.get(tp) != p},
            gone=gone,
            topic_ids=ids,
            first_batch={**start.positions, **starts} if is_first else None,
            left=start.left_after(gone, positions.keys(), known_ids, int(time.time())),
        )

    def _write_statistics(self) -> None:
        directory, query = self._options.reports.stats_directory, self._split_planning.query
        if directory:
            write_driver_stats(directory, query, self._watch.stats(), self._check.loss_counts)


class _Pace:
    """How long a planning waits for a change, or for more offsets."""

    def __init__(self, max_delay_s: float) -> None:
        self._delay = TriggerDelay(max_delay_s)
        self._held_back = False
        """Whether new offsets wait for ``minOffsetsPerTrigger``."""
        self._has_planned = False
        """Whether the last planning gave a micro-batch that has not begun."""
        self._busy_elsewhere = False
        """Whether the last micro-batch was another source's."""

    def holds_back(self, starts: Positions, ends: Positions, min_offsets: int | None) -> bool:
        """Returns whether the offsets between these positions wait for more; None: they do not."""
        self._held_back = min_offsets is not None and not self._delay.due(
            sum(max(0, end.offset - starts[tp].offset) for tp, end in ends.items()),
            min_offsets,
            time.monotonic(),
        )
        return self._held_back

    def planned(self, *, batch: bool) -> None:
        """Note the end of a planning, and whether it gave a micro-batch."""
        self._has_planned, self._busy_elsewhere = batch, False

    def batch_begins(self) -> None:
        """Note that a micro-batch begins: the planned one, or another source's."""
        self._busy_elsewhere = not self._has_planned

    @property
    def patience_s(self) -> float:
        """The seconds to wait for a change."""
        return _BUSY_WAIT_S if self._busy_elsewhere else LONG_POLL_MS / 1000

    @property
    def pause_s(self) -> float:
        """The seconds to wait after a change.

        While offsets wait for more, each further change would end the wait at once.
        """
        return _HELD_BACK_PAUSE_S if self._held_back else 0.0


def _admitted(
    starts: Positions, ends: Positions, max_offsets: int | None
) -> dict[TopicPartition, Position]:
    """Returns the end position of each partition in a micro-batch of about ``max_offsets``.

    An unmoved position keeps its epoch, so that the JSON of an idle partition stays the same.
    """
    offsets = admit(
        {tp: p.offset for tp, p in starts.items()},
        {tp: p.offset for tp, p in ends.items()},
        max_offsets,
    )
    return {
        tp: starts[tp] if starts[tp].offset == offset else Position(offset, ends[tp].leader_epoch)
        for tp, offset in offsets.items()
    }


def _has_moved(start: Offsets, starts: Positions, positions: Positions) -> bool:
    """Returns whether the micro-batch would read or skip any offset."""
    return any(
        position.offset != starts[tp].offset
        or (tp in start.positions and start.positions[tp].offset != position.offset)
        for tp, position in positions.items()
    )
