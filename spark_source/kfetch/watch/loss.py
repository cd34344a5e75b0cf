"""The loss policy of the driver: are the checkpoint's positions still in the log?

Asked at every start and whenever a leader changes (KIP-320): does the leader's history still reach
the position? A log that was truncated and has grown again is found out by its epochs, a topic that
was created again by its id, retention by the log starts that the watch is told. With
``failOnDataLoss=false`` a loss is logged, counted, and the position moves to where reading can go
on: the truncation point, the log start offset, offset 0.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, Leader, TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.log import Log
from kfetch.wire.messages import EpochEnd

log = logging.getLogger(__name__)

_ADVICE = "set failOnDataLoss=false to go on with what is left, or use a new checkpoint"

# KAFKA-7703: a log end lower than one that was already seen may be an old answer: ask again.
_STALE_TRIES = 3
_STALE_PAUSE_S = 0.1


class Known(Protocol):
    """What the watch knows of a partition."""

    def exists(self, tp: TopicPartition) -> bool:
        """Whether it is there and subscribed."""

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Who leads it, None while nobody is known to."""

    def log_start(self, tp: TopicPartition) -> int:
        """Its log start offset, -1 while it is not known."""

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """The ids of the topics of now."""


def _warn(loss: DataLoss) -> None:
    what, _, _ = loss.message.partition(_ADVICE)
    log.warning("kfetch: %s (failOnDataLoss=false: going on)", what.rstrip(" :;"))


class LossPolicy:
    """Checks positions; remembers under which leader epoch each was found sound.

    Where a position had to move is not remembered: Spark goes on naming the old one until the
    micro-batch is done, also to a driver that was started anew, and the log tells it again.
    """

    def __init__(
        self, source: Log, known: Known, *, fail: bool, tell: Callable[[DataLoss], None] = _warn
    ) -> None:
        """``tell`` is given each loss that is not to fail, once."""
        self._log = source
        self._known = known
        self._fail = fail
        self._tell = tell
        self._checked: dict[TopicPartition, tuple[int, Position]] = {}
        """Current leader epoch, and the position that was sound under it."""
        self._told: dict[TopicPartition, tuple[type[DataLoss], object]] = {}
        self.counts: Counter[str] = Counter()
        """Losses by the name of their class, each counted once however often it is found."""

    def sound(self, start: Offsets) -> Offsets:
        """The same positions if the log still has them; else a loss is raised or mended."""
        positions = dict(start.positions)
        for tp, position in start.positions.items():
            if not self._known.exists(tp):
                self.gone(tp, position)
                del positions[tp]
            elif self._recreated(tp, start):
                positions[tp] = Position(0, NO_EPOCH)
        positions = self._check_leaders(positions)
        return Offsets(positions=positions, topic_ids=start.topic_ids)

    def ends(
        self, ends: dict[TopicPartition, Position], sound: Offsets
    ) -> dict[TopicPartition, Position]:
        """The same log ends, or newer ones; one below its position is a loss, if it stays so."""
        for tries in range(1 + _STALE_TRIES):
            low = _low(ends, sound)
            if not low:
                return ends
            time.sleep(_STALE_PAUSE_S if tries else 0.0)
            ends.update(self._reached(low, sound))
        for tp in _low(ends, sound):
            self._beyond(tp, sound.positions[tp], ends[tp])
        return ends

    def _reached(
        self, partitions: list[TopicPartition], sound: Offsets
    ) -> dict[TopicPartition, Position]:
        """Log ends. A position above the last stable offset, reached before the query became
        read_committed, is no loss if the log itself reaches it: there it waits."""
        ends = self._log.ends(partitions)
        marks = self._log.high_watermarks(_low(ends, sound))
        waiting = {tp: sound.positions[tp] for tp in marks if not _below(marks, sound, tp)}
        return ends | waiting

    def new_partitions(self, new: list[TopicPartition]) -> dict[TopicPartition, Position]:
        """Where partitions begin that the last offset did not have; not at 0 is a loss."""
        starts = {tp: self._start(tp) for tp in new}
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

    def _recreated(self, tp: TopicPartition, start: Offsets) -> bool:
        before, now = start.topic_id(tp.topic), self._known.topic_ids.get(tp.topic, NO_TOPIC_ID)
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
        self, positions: dict[TopicPartition, Position]
    ) -> dict[TopicPartition, Position]:
        """Hold positions against their log starts, and those whose leader changed against its
        epochs."""
        leaders = {tp: found for tp in positions if (found := self._known.leader(tp)) is not None}
        for tp in leaders:
            start = self._start(tp)
            if positions[tp].offset < start.offset:
                positions[tp] = self._expired(tp, positions[tp], start)
        changed = [tp for tp in leaders if self._unchecked(tp, positions[tp], leaders[tp].epoch)]
        asked = {tp: e for tp in changed if (e := positions[tp].leader_epoch) != NO_EPOCH}
        answers = self._log.epoch_ends(asked)
        for tp in changed:
            cut = self._cut(tp, positions[tp], answers.get(tp))
            if cut is None:
                self._checked[tp] = leaders[tp].epoch, positions[tp]
            else:
                positions[tp] = self._truncated(tp, positions[tp], cut)
        return positions

    def _cut(self, tp: TopicPartition, position: Position, end: EpochEnd | None) -> Position | None:
        """Where the leader's history leaves that of the position; None if it reaches it.

        A leader that has no epoch up to the position's has other records below it, if it has any:
        the old ones were of that epoch at most.
        """
        if end is None:
            return None
        if end.end_offset >= 0:
            cut = Position(end.end_offset, end.leader_epoch)
        else:
            cut = Position(max(0, self._known.log_start(tp)), NO_EPOCH)
        return cut if cut.offset < position.offset else None

    def _start(self, tp: TopicPartition) -> Position:
        """The log start; a leader's own epoch vouches for it."""
        leader = self._known.leader(tp)
        return Position(self._known.log_start(tp), leader.epoch if leader else NO_EPOCH)

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
        """Raise a loss, or tell it: once, though planning the same micro-batch finds it again."""
        tp = TopicPartition(loss.topic, loss.partition)
        seen = type(loss), loss.message
        if self._told.get(tp) != seen:
            self._told[tp] = seen
            self.counts[type(loss).__name__] += 1
            if not self._fail:
                self._tell(loss)
        if self._fail:
            raise loss


def _low(ends: dict[TopicPartition, Position], sound: Offsets) -> list[TopicPartition]:
    return [tp for tp in ends if tp in sound.positions and _below(ends, sound, tp)]


def _below(ends: dict[TopicPartition, Position], sound: Offsets, tp: TopicPartition) -> bool:
    return ends[tp].offset < sound.positions[tp].offset
