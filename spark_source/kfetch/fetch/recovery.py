"""What an error of one partition asks for: another leader, another position, or the truth.

Loss is never silent. A position that the log no longer has becomes one of the errors below
DataLoss, or with ``failOnDataLoss=false`` a warning and the next offset that can be read, with
nothing twice.
"""

from __future__ import annotations

import logging
from typing import Any

from kfetch import codes
from kfetch.errors import (
    BrokerError,
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from kfetch.fetch.progress import RangeProgress
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, ClusterView
from kfetch.options import EARLIEST, LATEST
from kfetch.replies import FetchReply, PartitionReply
from kfetch.wire.cluster import Cluster

log = logging.getLogger(__name__)

_MISSING_MAX = 3  # looks at the metadata that find no such partition, before it is gone

_ADVICE = (
    "set failOnDataLoss=false to go on with what is left, or begin anew with another checkpoint"
)


def relocate(progress: RangeProgress, view: ClusterView, *, fail: bool) -> bool:
    """Point a range to its partition's leader of now; False while there is none.

    Raises PartitionGone or TopicRecreated; with ``fail=False`` such a range is over instead.
    """
    topic = view.topics.get(progress.tp.topic)
    if topic is None or progress.tp.partition not in topic.leaders:
        # A broker that was just started may not have heard of it yet: ask again, with a pause.
        progress.missing += 1
        return progress.missing >= _MISSING_MAX and _over(progress, _gone(progress), fail=fail)
    progress.missing = 0
    if NO_TOPIC_ID not in (topic.topic_id, progress.range.topic_id) and (
        topic.topic_id != progress.range.topic_id
    ):
        return _over(progress, _recreated(progress, str(topic.topic_id)), fail=fail)
    leader = topic.leaders[progress.tp.partition]
    if leader is None:
        return False
    progress.leader, progress.leader_epoch = leader.broker, leader.epoch
    return True


def reposition(progress: RangeProgress, cluster: Cluster, deadline: float, *, fail: bool) -> bool:
    """The broker says that the position is out of range: find out why, fail or go on.

    False if the position is in range all the same, and asking at once would change nothing.
    Raises RecordsExpired, OffsetBeyondLog.
    """
    earliest = cluster.offsets({progress.tp: EARLIEST}, deadline)[progress.tp].offset
    if progress.offset < earliest:
        report(_expired(progress, earliest), fail=fail)
        progress.offset = min(earliest, progress.end)
        progress.last_fetched_epoch = NO_EPOCH  # of a record that is not before the position now
        return True
    latest = cluster.offsets({progress.tp: LATEST}, deadline)[progress.tp].offset
    if progress.offset > latest:
        report(_beyond(progress, latest), fail=fail)
        progress.end = progress.offset
        return True
    return _epoch_unknown(progress, cluster, deadline, earliest, fail=fail)


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
    end = cluster.epoch_ends({tp: epoch}, deadline)[tp]
    if end is None or end.end_offset >= progress.offset:
        return False
    progress.last_fetched_epoch = epoch
    diverged(progress, end.leader_epoch, max(end.end_offset, earliest), fail=fail)
    return True


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


def refused(progress: RangeProgress, code: int) -> BrokerError:
    """The error of a fetch that the broker refused for this partition."""
    return codes.error(
        code,
        f"fetching {progress.tp} from offset {progress.offset} at {progress.leader}",
        **_where(progress),
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
    report(_truncated(progress, epoch, end_offset), fail=fail)
    # The driver finds the cut too, and goes on from it: what is read here would come twice.
    progress.end = progress.offset


def report(loss: DataLoss, *, fail: bool) -> None:
    """Raise a loss, or log it and let the caller go on."""
    if fail:
        raise loss
    what, _, _ = loss.message.partition(_ADVICE)
    log.warning("%s (failOnDataLoss=false: going on)", what.rstrip(" :;"))


def _over(progress: RangeProgress, loss: DataLoss, *, fail: bool) -> bool:
    report(loss, fail=fail)
    progress.end = progress.offset
    return True


def _gone(progress: RangeProgress) -> PartitionGone:
    return PartitionGone(
        f"{progress.tp} no longer exists, but offsets {progress.offset} to {progress.end} of it "
        f"were to be read: {_ADVICE}",
        **_where(progress),
    )


def _recreated(progress: RangeProgress, now: str) -> TopicRecreated:
    return TopicRecreated(
        f"topic {progress.tp.topic} was deleted and created again: its id was "
        f"{progress.range.topic_id} and is {now}, so offsets {progress.offset} to {progress.end} "
        f"of {progress.tp} are other records now: {_ADVICE}",
        **_where(progress),
    )


def _expired(progress: RangeProgress, earliest: int) -> RecordsExpired:
    return RecordsExpired(
        f"{progress.tp}: offsets {progress.offset} to {min(earliest, progress.end)} have expired, "
        f"the log starts at {earliest}: {_ADVICE}, or keep records longer (retention)",
        log_start_offset=earliest,
        **_where(progress),
    )


def _beyond(progress: RangeProgress, latest: int) -> OffsetBeyondLog:
    return OffsetBeyondLog(
        f"{progress.tp}: offset {progress.offset} is to be read, but the log ends at {latest}: it "
        f"was truncated, or the topic was created again: {_ADVICE}",
        high_watermark=latest,
        **_where(progress),
    )


def _truncated(progress: RangeProgress, epoch: int, end_offset: int) -> LogTruncated:
    return LogTruncated(
        f"{progress.tp} was truncated at offset {end_offset} (leader epoch {epoch}), below offset "
        f"{progress.offset} that has been read (epoch {progress.last_fetched_epoch}): {_ADVICE}",
        end_offset=end_offset,
        diverging_epoch=epoch,
        **_where(progress),
    )


def _where(progress: RangeProgress) -> dict[str, Any]:
    return {
        "topic": progress.tp.topic,
        "partition": progress.tp.partition,
        "offset": progress.offset,
        "leader_epoch": progress.leader_epoch,
    }
