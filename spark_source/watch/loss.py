"""The loss policy of the driver: are the checkpoint's positions still in the log?

Asked at every start and whenever a leader changes (KIP-320): does the leader's history still reach
the position? A log that was truncated and has grown again is found out by its epochs, a topic that
was created again by its id. With ``failOnDataLoss=false`` a loss is logged and the position
moves to where reading can go on: the truncation point, the log start offset, offset 0.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from spark_source.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from spark_source.model import NO_EPOCH, NO_TOPIC_ID, ClusterView, TopicPartition
from spark_source.offsets import Offsets, Position
from spark_source.watch.log import Log

log = logging.getLogger(__name__)

_ADVICE = "set failOnDataLoss=false to go on with what is left, or use a new checkpoint"

# KAFKA-7703: a log end lower than one that was already seen may be an old answer: ask again.
_STALE_TRIES = 3
_STALE_PAUSE_S = 0.1


class LossPolicy:
    """Checks positions; remembers under which leader epoch each was found sound.

    Where a position had to move is not remembered: Spark goes on naming the old one until the
    micro-batch is done, also to a driver that was started anew, and the log tells it again.
    """

    def __init__(self, source: Log, *, fail: bool) -> None:
        self._log = source
        self._fail = fail
        self._checked: dict[TopicPartition, tuple[int, Position]] = {}
        """Current leader epoch, and the position that was sound under it."""

    def sound(self, start: Offsets, view: ClusterView) -> Offsets:
        """The same positions if the log still has them; else a loss is raised or mended."""
        positions = dict(start.positions)
        here = set(self._log.partitions(view))
        for tp, position in start.positions.items():
            if tp not in here:
                self.gone(tp, position)
                del positions[tp]
            elif self._recreated(tp, start, view):
                positions[tp] = Position(0, NO_EPOCH)
        positions = self._check_leaders(positions, view)
        return Offsets(positions=positions, topic_ids=start.topic_ids)

    def ends(
        self, partitions: Iterable[TopicPartition], sound: Offsets
    ) -> dict[TopicPartition, Position]:
        """Log ends of now; one below its position is a loss, and then where reading goes on."""
        ends = self._reached(partitions, sound)
        for _ in range(_STALE_TRIES):
            low = _low(ends, sound)
            if not low:
                return ends
            time.sleep(_STALE_PAUSE_S)
            ends.update(self._reached(low, sound))
        for tp in _low(ends, sound):
            self._beyond(tp, sound.positions[tp], ends[tp])
        return ends

    def _reached(
        self, partitions: Iterable[TopicPartition], sound: Offsets
    ) -> dict[TopicPartition, Position]:
        """Log ends. A position above the last stable offset, reached before the query became
        read_committed, is no loss if the log itself reaches it: there it waits."""
        ends = self._log.ends(partitions)
        marks = self._log.high_watermarks(_low(ends, sound))
        waiting = {tp: sound.positions[tp] for tp in marks if not _below(marks, sound, tp)}
        return ends | waiting

    def new_partitions(self, new: list[TopicPartition]) -> dict[TopicPartition, Position]:
        """Where partitions begin that the last offset did not have; not at 0 is a loss."""
        starts = self._log.starts(new)
        for tp, start in starts.items():
            if start.offset > 0:
                self._report(
                    RecordsExpired(
                        f"{tp} is new, but its log starts at offset {start.offset}: what lay below "
                        f"has expired unread; {_ADVICE}",
                        topic=tp.topic,
                        partition=tp.partition,
                        log_start_offset=start.offset,
                    )
                )
        return starts

    def gone(self, tp: TopicPartition, position: Position) -> None:
        """A partition of the offset does not exist any more."""
        self._report(
            PartitionGone(
                f"{tp} no longer exists, or is not subscribed any more, and was read up to offset "
                f"{position.offset}: {_ADVICE}",
                topic=tp.topic,
                partition=tp.partition,
                offset=position.offset,
            )
        )

    def _recreated(self, tp: TopicPartition, start: Offsets, view: ClusterView) -> bool:
        before, now = start.topic_id(tp.topic), view.topics[tp.topic].topic_id
        if NO_TOPIC_ID in (before, now) or before == now:
            return False
        self._report(
            TopicRecreated(
                f"topic {tp.topic} was deleted and created again (its id was {before} and is "
                f"{now}): offset {start.positions[tp].offset} of {tp} is of the old topic; "
                f"{_ADVICE}",
                topic=tp.topic,
                partition=tp.partition,
                offset=start.positions[tp].offset,
                topic_id=before,
                topic_id_now=now,
            )
        )
        return True

    def _check_leaders(
        self, positions: dict[TopicPartition, Position], view: ClusterView
    ) -> dict[TopicPartition, Position]:
        """Check the partitions whose leader changed since they were last checked."""
        epochs = {tp: leader.epoch for tp in positions if (leader := view.leader(tp)) is not None}
        changed = [tp for tp, epoch in epochs.items() if self._unchecked(tp, positions[tp], epoch)]
        starts = self._log.starts(changed)
        asked = {tp: e for tp in changed if (e := positions[tp].leader_epoch) != NO_EPOCH}
        answers = self._log.epoch_ends(asked)
        for tp in changed:
            answer = answers.get(tp)
            if positions[tp].offset < starts[tp].offset:
                positions[tp] = self._expired(tp, positions[tp], starts[tp])
            elif answer is not None and 0 <= answer.end_offset < positions[tp].offset:
                cut = Position(answer.end_offset, answer.leader_epoch)
                positions[tp] = self._truncated(tp, positions[tp], cut)
            else:
                self._checked[tp] = epochs[tp], positions[tp]
        return positions

    def _unchecked(self, tp: TopicPartition, position: Position, epoch: int) -> bool:
        """Whether a position has to be held against the leader's history.

        One that was reached under the leader of now need not be. One of an older leader must be,
        each by itself: that a range's start is sound says nothing of its end.
        """
        known = self._checked.get(tp)
        if known is None or known[0] != epoch:
            return True
        return position.leader_epoch not in (epoch, NO_EPOCH) and known[1] != position

    def _expired(self, tp: TopicPartition, position: Position, start: Position) -> Position:
        self._report(
            RecordsExpired(
                f"{tp}: offsets {position.offset} to {start.offset} have expired unread, the log "
                f"starts at {start.offset}: {_ADVICE}, and keep records longer (retention)",
                topic=tp.topic,
                partition=tp.partition,
                offset=position.offset,
                log_start_offset=start.offset,
            )
        )
        return start

    def _truncated(self, tp: TopicPartition, position: Position, cut: Position) -> Position:
        self._report(
            LogTruncated(
                f"{tp} was truncated at offset {cut.offset} (leader epoch {cut.leader_epoch}), "
                f"below offset {position.offset} that was reached under epoch "
                f"{position.leader_epoch}: {_ADVICE}",
                topic=tp.topic,
                partition=tp.partition,
                offset=position.offset,
                leader_epoch=position.leader_epoch,
                end_offset=cut.offset,
            )
        )
        return cut

    def _beyond(self, tp: TopicPartition, position: Position, end: Position) -> None:
        self._report(
            OffsetBeyondLog(
                f"{tp} stands at offset {position.offset}, but its log ends at {end.offset}: "
                f"it was truncated, or startingOffsets lies past its end; {_ADVICE}",
                topic=tp.topic,
                partition=tp.partition,
                offset=position.offset,
                high_watermark=end.offset,
            )
        )

    def _report(self, loss: DataLoss) -> None:
        if self._fail:
            raise loss
        log.warning("%s (failOnDataLoss=false: going on)", loss.message)


def _low(ends: dict[TopicPartition, Position], sound: Offsets) -> list[TopicPartition]:
    return [tp for tp in ends if tp in sound.positions and _below(ends, sound, tp)]


def _below(ends: dict[TopicPartition, Position], sound: Offsets, tp: TopicPartition) -> bool:
    return ends[tp].offset < sound.positions[tp].offset
