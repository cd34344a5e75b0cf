"""Checks in the driver whether the log still has the positions of the checkpoint.

The driver checks positions at every start and whenever a leader changes (KIP-320). The leader's
epochs show a log that was truncated and has grown again. The topic id shows a topic that was
created again. The log starts in the watch's replies show expired records. ``losses`` holds the
verdicts. With ``failOnDataLoss=false`` the driver logs and counts each loss. It then moves the
position to the truncation point, the log start offset or offset 0.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from uuid import UUID

from kfetch import losses
from kfetch.errors import DataLoss, TopicRecreated
from kfetch.losses import LogAnswer, ReadPosition, find_loss
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, ClusterView, Leader, TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.state import WatchState
from kfetch.wire.messages import EpochEnd

log = logging.getLogger(__name__)

# KAFKA-7703: a log end below one that was seen before may be an old answer, so ask again.
_STALE_TRIES = 3
_STALE_PAUSE_S = 0.1


def _log_warning(loss: DataLoss) -> None:
    log.warning("kfetch: %s", losses.warning(loss))


@dataclass(eq=False)
class PositionCheck:
    """Checks positions, and remembers the leader epoch under which each was valid.

    It does not remember moved positions. Spark names the old position until the micro-batch is
    done, also after a restart. The brokers' answers then show the same loss again.
    """

    lookup: OffsetLookup
    state: WatchState
    _: KW_ONLY
    fail: bool
    """Whether a loss is raised."""
    on_loss: Callable[[DataLoss], None] = _log_warning
    """Gets each loss once if it is not raised."""
    _valid: dict[TopicPartition, tuple[int, Position]] = field(default_factory=dict)
    """The leader epoch of the last check, and the position that was valid under it."""
    _unknown_epochs: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """The epochs that no broker knows, after their warning."""
    _reported: dict[TopicPartition, tuple[type[DataLoss], str, UUID]] = field(default_factory=dict)
    loss_counts: Counter[str] = field(default_factory=Counter)
    """Number of losses by class name. Each loss counts once, though checks find it again."""

    def note_valid(self, positions: Mapping[TopicPartition, Position], view: ClusterView) -> None:
        """Note positions that leaders have just named. ``view``: metadata from before.

        They need no check while the view's leaders lead.
        """
        for tp, position in positions.items():
            if (leader := view.leader(tp)) is not None:
                self._valid[tp] = leader.epoch, position

    def valid_offsets(self, offsets: Offsets) -> Offsets:
        """Returns the offsets, with every lost position moved or removed.

        Raises an error below DataLoss if losses fail the query.
        """
        positions = dict(offsets.positions)
        for tp, position in offsets.positions.items():
            valid = self._valid_position(tp, position, offsets.topic_id(tp.topic))
            if valid is None:
                del positions[tp]
            else:
                positions[tp] = valid
        self._check_epochs(positions)
        return Offsets(positions=positions, topic_ids=offsets.topic_ids)

    def valid_log_ends(
        self, log_ends: dict[TopicPartition, Position], start: Offsets
    ) -> dict[TopicPartition, Position]:
        """Returns these ends, or the start where an end lies below it: then nothing is to read.

        A log that still ends below the start after a few look-ups is a loss. Then the result has
        its end. It is none if the leader answers for a topic that was created again since the
        metadata: leaders are asked by name.
        """
        for tries in range(1 + _STALE_TRIES):
            low = _below_start(log_ends, start)
            if not low:
                return log_ends
            time.sleep(_STALE_PAUSE_S if tries else 0.0)
            reachable = self._reachable_ends(low, start, newest_leaders=tries > 0)
            log_ends = {tp: end for tp, end in log_ends.items() if tp not in low} | reachable
        low = _below_start(log_ends, start)
        others = self.lookup.other_topics(low, self.state.topic_ids)
        for tp in set(low) - others:
            read = ReadPosition(tp, *start.positions[tp])
            self._is_lost(read, LogAnswer(log_end=log_ends[tp].offset))
        return log_ends | {tp: start.positions[tp] for tp in others}

    def new_partition_starts(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        """Returns the log starts of partitions that the last offsets did not have.

        A new partition starts at offset 0, so a later log start is a loss.
        """
        log_starts = {tp: self.state.log_start(tp) for tp in partitions}
        for tp, start in log_starts.items():
            self._is_lost(ReadPosition(tp, 0), LogAnswer(log_start=start.offset))
        return log_starts

    def batch_starts(
        self, valid: Offsets, ends: Collection[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        """Returns where a micro-batch starts in the partitions of ``ends``.

        ``valid`` are the checked start positions. Partitions without one are new.
        """
        new = self.new_partition_starts([tp for tp in ends if tp not in valid.positions])
        return {tp: valid.positions.get(tp) or new[tp] for tp in ends}

    def _reachable_ends(
        self, partitions: list[TopicPartition], start: Offsets, *, newest_leaders: bool
    ) -> dict[TopicPartition, Position]:
        """Returns the starts that the logs reach, and the ends of the other logs.

        A start may lie above the last stable offset: the query reached it before it became
        read_committed. A start may lie above the fixed end of an AvailableNow query: the records
        before it have expired. Nothing is lost there. With ``newest_leaders`` several brokers name
        the leader, because a deposed leader's log may end earlier.
        """
        epochs = self._leader_epochs(partitions)
        if newest_leaders:
            epochs = self.lookup.newest_leader_epochs(partitions, epochs)
        ends = self.lookup.log_ends(partitions, epochs)
        ends |= self.lookup.high_watermarks(_below_start(ends, start), epochs)
        starts = start.positions
        return {tp: min(starts[tp], end, key=lambda at: at.offset) for tp, end in ends.items()}

    def _valid_position(
        self, tp: TopicPartition, position: Position, topic_id: UUID
    ) -> Position | None:
        """Returns the position, or where reading continues after a loss; None without a partition.

        Checks everything that the known partitions tell, without a request.
        """
        exists = self.state.exists(tp)
        answer = LogAnswer(
            exists=exists,
            topic_id=self.state.topic_ids.get(tp.topic, NO_TOPIC_ID),
            log_start=self.state.log_start(tp).offset if exists and self.state.leader(tp) else 0,
        )
        read = ReadPosition(tp, *position, topic_id=topic_id)
        loss = find_loss(read, answer)
        if loss is None:
            return position
        self._report(read, loss)
        if not exists:
            return None
        if isinstance(loss, TopicRecreated):  # the new topic's first records may have expired
            return self._valid_position(tp, Position(0, NO_EPOCH), NO_TOPIC_ID)
        return self.state.log_start(tp)

    def _check_epochs(self, positions: dict[TopicPartition, Position]) -> None:
        """Ask the leaders for the epochs of unchecked positions; move truncated ones."""
        leaders = {tp: leader for tp in positions if (leader := self.state.leader(tp)) is not None}
        unchecked = [
            tp for tp, leader in leaders.items() if self._is_unchecked(tp, positions[tp], leader)
        ]
        epochs = {
            tp: epoch for tp in unchecked if (epoch := positions[tp].leader_epoch) != NO_EPOCH
        }
        epoch_ends = self._of_same_topics(
            self.lookup.epoch_ends(epochs, self._leader_epochs(epochs)), positions
        )
        for tp in unchecked:
            if tp in epochs and tp not in epoch_ends:
                continue  # gone since the last metadata; the next metadata tells
            diverging = self._diverging(tp, positions[tp], epoch_ends.get(tp))
            if diverging is not None and self._is_lost(
                ReadPosition(tp, *positions[tp]), LogAnswer(diverging=diverging)
            ):
                positions[tp] = diverging
            else:
                self._valid[tp] = leaders[tp].epoch, positions[tp]

    def _of_same_topics(
        self,
        epoch_ends: dict[TopicPartition, EpochEnd | None],
        positions: Mapping[TopicPartition, Position],
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Returns the answers without those of topics that were created again since the metadata.

        Leaders are asked by name. The history of a new topic would look like a truncated log. The
        new topic may be gone, too, by now.
        """
        short = [
            tp
            for tp, end in epoch_ends.items()
            if end is not None and end.end_offset < positions[tp].offset
        ]
        others = self.lookup.other_topics(short, self.state.topic_ids)
        return {tp: end for tp, end in epoch_ends.items() if tp not in others}

    def _diverging(
        self, tp: TopicPartition, position: Position, end: EpochEnd | None
    ) -> Position | None:
        """Returns the end of the history that the leader shares with a position, or None."""
        if end is None:
            return None
        if end.end_offset >= 0:
            return Position(end.end_offset, end.leader_epoch)
        if (tp, position.leader_epoch) not in self._unknown_epochs:
            self._unknown_epochs.add((tp, position.leader_epoch))
            log.warning("kfetch: %s", losses.unknown_epoch(ReadPosition(tp, *position)))
        return None

    def _leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the epochs of the known leaders."""
        leaders = {tp: self.state.leader(tp) for tp in partitions}
        return {tp: leader.epoch for tp, leader in leaders.items() if leader is not None}

    def _is_unchecked(self, tp: TopicPartition, position: Position, leader: Leader) -> bool:
        """Returns whether the position must be compared with the leader's epochs.

        A position that was reached under the current leader is valid. A position of an older leader
        is checked itself: a range with a valid start may have a lost end.
        """
        last = self._valid.get(tp)
        if last is None or last[0] != leader.epoch:
            return True
        return position.leader_epoch not in (leader.epoch, NO_EPOCH) and last[1] != position

    def _is_lost(self, position: ReadPosition, answer: LogAnswer) -> bool:
        """Returns whether the log no longer has the position. Raises or reports the loss."""
        loss = find_loss(position, answer)
        if loss is not None:
            self._report(position, loss)
        return loss is not None

    def _report(self, position: ReadPosition, loss: DataLoss) -> None:
        """Raise or report a loss. Planning the same micro-batch again does not repeat a report.

        A topic that is created again may lose the same offset once more, under another id.
        """
        seen = type(loss), loss.message, position.topic_id
        if self._reported.get(position.tp) != seen:
            self._reported[position.tp] = seen
            self.loss_counts[type(loss).__name__] += 1
            if not self.fail:
                self.on_loss(loss)
        if self.fail:
            raise loss


def _below_start(
    log_ends: Mapping[TopicPartition, Position], start: Offsets
) -> list[TopicPartition]:
    """Returns the partitions whose log ends below the start."""
    positions = start.positions
    return [
        tp for tp, end in log_ends.items() if tp in positions and end.offset < positions[tp].offset
    ]
