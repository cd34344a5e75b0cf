"""Answers an error of one partition: another leader, another position, or a data loss.

Loss is never silent. ``losses`` says whether the log still has a position. A lost position is an
error below DataLoss. With ``failOnDataLoss=false`` it is a warning, and reading continues at the
next offset that exists, without reading a record twice.
"""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from typing import Protocol

from kfetch import codes, losses
from kfetch.errors import BrokerError, DataLoss
from kfetch.fetch.progress import RangeProgress
from kfetch.losses import LogAnswer, ReadPosition, find_loss
from kfetch.model import NO_EPOCH, ClusterView
from kfetch.offsets import Position
from kfetch.options import EARLIEST, LATEST
from kfetch.reactions import Api
from kfetch.session.replies import FetchReply, PartitionReply
from kfetch.wire.cluster import Cluster

log = logging.getLogger(__name__)

_UNKNOWN_EPOCHS_MAX = 3  # leaders that know no such epoch, before the range gives the epoch up


class LeaderMetadata(Protocol):
    """Metadata for the topics of ranges that have lost their leader."""

    def announce(self, topic: str) -> None:
        """Note that a ``view`` of this topic will be asked for, after a back-off."""

    def view(self, topics: AbstractSet[str], since: float, deadline: float) -> ClusterView:
        """Returns metadata of these topics that was asked for at ``since`` or later.

        ``since`` and ``deadline`` are monotonic times. Retries up to the deadline. Raises
        ConnectionLost, BrokerError.
        """


def relocate(progress: RangeProgress, view: ClusterView, *, now: float, fail: bool) -> bool:
    """Point a range to its partition's leader of now; False while there is none.

    ``now``: monotonic seconds. A partition that no broker names may be hidden for a moment. So it
    is gone only after ``losses.GONE_AFTER_S``. Raises PartitionGone or TopicRecreated; with
    ``fail=False`` such a range is over instead.
    """
    topic = view.topics.get(progress.tp.topic)
    if topic is None or progress.tp.partition not in topic.leaders:
        progress.missing_since = now if progress.missing_since is None else progress.missing_since
        if now - progress.missing_since < losses.GONE_AFTER_S:
            return False
        return _end_if_lost(progress, LogAnswer(exists=False), fail=fail)
    progress.missing_since = None
    if _end_if_lost(progress, LogAnswer(topic_id=topic.topic_id), fail=fail):
        return True
    leader = topic.leaders[progress.tp.partition]
    # An older leader may not know yet that it has a successor, and serve records that are lost.
    if leader is None or leader.is_older_than(progress.leader_epoch):
        return False
    progress.leader, progress.leader_epoch = leader.broker, leader.epoch
    return True


def reposition(progress: RangeProgress, cluster: Cluster, deadline: float, *, fail: bool) -> bool:
    """The broker says that the position is out of range: find out why, fail or go on.

    False if the position is in range all the same, and asking at once would change nothing. False
    also if the partition is gone since. Raises RecordsExpired, OffsetBeyondLog.
    """
    earliest = _offset(progress, cluster, deadline, EARLIEST)
    if earliest is None:
        return False
    if _is_lost(progress, LogAnswer(log_start=earliest), fail=fail):
        progress.offset = min(earliest, progress.end)
        progress.last_fetched_epoch = NO_EPOCH  # of a record that is not before the position now
        return True
    latest = _offset(progress, cluster, deadline, LATEST)
    if latest is None:
        return False
    if _end_if_lost(progress, LogAnswer(log_end=latest), fail=fail):
        return True
    return _epoch_unknown(progress, cluster, deadline, earliest, fail=fail)


def _offset(
    progress: RangeProgress, cluster: Cluster, deadline: float, timestamp: int
) -> int | None:
    """Returns an offset of the log, from a leader that is not older than the range's.

    None if the partition is gone.
    """
    tp = progress.tp
    known = {tp: progress.leader_epoch}
    listed = cluster.offsets({tp: timestamp}, deadline, leader_epochs=known).get(tp)
    return listed.offset if listed else None


def _epoch_unknown(
    progress: RangeProgress, cluster: Cluster, deadline: float, earliest: int, *, fail: bool
) -> bool:
    """A leader without any epoch up to our last one calls that out of range too: is it a loss?

    The record before the position was of our last epoch. If it is still in the log, and the leader
    has it under another epoch, it is another record.
    """
    tp, epoch = progress.tp, progress.last_fetched_epoch
    progress.last_fetched_epoch = NO_EPOCH
    if epoch == NO_EPOCH or progress.offset <= earliest:
        return False
    known = {tp: progress.leader_epoch}
    end = cluster.epoch_ends({tp: epoch}, deadline, leader_epochs=known).get(tp)
    if end is None or end.end_offset >= progress.offset:
        return False
    if end.end_offset < 0:
        _note_unknown_epoch(progress, epoch)
        return False
    progress.last_fetched_epoch = epoch
    diverged(progress, end.leader_epoch, end.end_offset, fail=fail)
    return True


def _note_unknown_epoch(progress: RangeProgress, epoch: int) -> None:
    """The leader knows no such epoch, so it is an older one: ask again, and then give up the epoch.

    Without the epoch the leader can't compare histories. So that needs a warning.
    """
    progress.unknown_epochs += 1
    if progress.unknown_epochs < _UNKNOWN_EPOCHS_MAX:
        progress.last_fetched_epoch = epoch
        return
    log.warning("%s", losses.unknown_epoch(ReadPosition(progress.tp, progress.offset, epoch)))


def follow(progress: RangeProgress, partition: PartitionReply, reply: FetchReply) -> bool:
    """Go straight to the leader that the reply names, if it is newer than ours (KIP-951)."""
    if partition.leader is None:
        return False
    node_id, epoch = partition.leader
    broker = reply.endpoints.get(node_id)
    if broker is None or epoch <= progress.leader_epoch:
        return False
    progress.leader, progress.leader_epoch = broker, epoch
    return True


def refused(progress: RangeProgress, code: int, user: str = "") -> BrokerError:
    """The error of a fetch that the broker refused for this partition.

    ``user``: the name that this client logs in with; empty if it is not known.
    """
    return codes.error(
        code,
        f"fetching {progress.tp} from offset {progress.offset} at {progress.leader}",
        api=Api.FETCH,
        **progress.tp._asdict(),
        offset=progress.offset,
        leader_epoch=progress.leader_epoch,
        user=user,
    )


def diverged(progress: RangeProgress, epoch: int, end_offset: int, *, fail: bool) -> None:
    """The broker's history leaves ours: at ``end_offset`` if that lies below the position.

    An epoch that wrote nothing is absent on the next leader, so the epoch alone proves nothing;
    the broker's answer is then its own epoch, and asking with that one settles it (KIP-320).
    Raises LogTruncated.
    """
    if end_offset >= progress.offset:
        # The same answer to its own epoch would go on for ever: then ask without one.
        progress.last_fetched_epoch = epoch if progress.last_fetched_epoch != epoch else NO_EPOCH
        return
    # The driver finds the truncation too and continues from it, so the range ends here. Otherwise
    # its records would come twice.
    _end_if_lost(progress, LogAnswer(diverging=Position(end_offset, epoch)), fail=fail)


def rewritten(progress: RangeProgress, *, fail: bool) -> None:
    """The log was truncated below the range's planned end, and has other records there now.

    The range has ended at the truncation. Raises LogTruncated, or logs it.
    """
    if progress.truncated_at is not None:
        _lose_end(progress, Position(progress.truncated_at, progress.last_fetched_epoch), fail=fail)


def is_cut(progress: RangeProgress, cluster: Cluster, deadline: float, *, fail: bool) -> bool:
    """The leader sends neither records nor an error: returns whether the log was truncated.

    An election may have cut the log at the position or below it. If nobody writes behind the
    position, no reply shows that. Then the range is over. Raises LogTruncated, or logs it.
    """
    tp, epoch = progress.tp, progress.range.end_epoch
    if epoch == NO_EPOCH or progress.leader_epoch <= epoch:
        return False
    known = {tp: progress.leader_epoch}
    end = cluster.epoch_ends({tp: epoch}, deadline, leader_epochs=known).get(tp)
    if end is None or not 0 <= end.end_offset <= progress.offset:
        return False
    _lose_end(progress, Position(end.end_offset, end.leader_epoch), fail=fail)
    return True


def _lose_end(progress: RangeProgress, diverging: Position, *, fail: bool) -> None:
    """Raise or log that the log ends at ``diverging``, below the range's planned end."""
    planned = progress.range
    read = ReadPosition(progress.tp, planned.end, planned.end_epoch, topic_id=planned.topic_id)
    _raise_or_log(find_loss(read, LogAnswer(diverging=diverging)), fail=fail)


def _end_if_lost(progress: RangeProgress, answer: LogAnswer, *, fail: bool) -> bool:
    """Returns whether the log no longer has the position; such a range ends at its position."""
    lost = _is_lost(progress, answer, fail=fail)
    if lost:
        progress.end = progress.offset
    return lost


def _is_lost(progress: RangeProgress, answer: LogAnswer, *, fail: bool) -> bool:
    """Returns whether the log no longer has the position. Raises the loss, or logs it."""
    return _raise_or_log(find_loss(_position(progress, answer), answer), fail=fail)


def _raise_or_log(loss: DataLoss | None, *, fail: bool) -> bool:
    if loss is None:
        return False
    if fail:
        raise loss
    log.warning("%s", losses.warning(loss))
    return True


def _position(progress: RangeProgress, answer: LogAnswer) -> ReadPosition:
    """Returns the range's position; beside a divergence, under the epoch of its last record."""
    return ReadPosition(
        progress.tp,
        progress.offset,
        progress.leader_epoch if answer.diverging is None else progress.last_fetched_epoch,
        topic_id=progress.range.topic_id,
        end=progress.end,
    )
