"""Data loss: when the log no longer has a position, and the sentence for each kind of loss.

Three modules of the driver (``watch/position_check.py``, ``batch_planning.py`` and
``available_now.py``) and the tasks (``fetch/recovery.py``) ask the brokers different questions. All
give the answers to ``find_loss``, and raise or log its result. The tables ``_VERDICTS`` and
``_SENTENCES`` have one row for each class below ``DataLoss``. Pure: no broker, clock or log file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    RecordsExpired,
    TopicRecreated,
)
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from kfetch.offsets import Position


class ReadPosition(NamedTuple):
    """The position of a query or a task in one partition."""

    tp: TopicPartition
    offset: int
    """The next offset to read."""
    leader_epoch: int = NO_EPOCH
    """The epoch under which the position was reached."""
    topic_id: UUID = NO_TOPIC_ID
    end: int | None = None
    """The end of the range to read, exclusive; None if the range has no end."""


class LogAnswer(NamedTuple):
    """What the brokers answered about one partition. The defaults stand for "not asked"."""

    exists: bool = True
    """Whether the partition exists and is subscribed."""
    topic_id: UUID = NO_TOPIC_ID
    log_start: int = 0
    """The log start offset."""
    diverging: Position | None = None
    """The end of the history that the leader shares with the position."""
    log_end: int | None = None
    """The high watermark, or the last stable offset."""


def _topic_id_differs(position: ReadPosition, log: LogAnswer) -> bool:
    return NO_TOPIC_ID not in (position.topic_id, log.topic_id) and (
        position.topic_id != log.topic_id
    )


# The first row whose condition holds is the loss.
_VERDICTS: tuple[tuple[type[DataLoss], Callable[[ReadPosition, LogAnswer], bool]], ...] = (
    (PartitionGone, lambda position, log: not log.exists),
    (TopicRecreated, _topic_id_differs),
    (RecordsExpired, lambda position, log: position.offset < log.log_start),
    (
        LogTruncated,
        lambda position, log: log.diverging is not None and log.diverging.offset < position.offset,
    ),
    (
        OffsetBeyondLog,
        lambda position, log: log.log_end is not None and log.log_end < position.offset,
    ),
)

# The names in braces are those of ``_context``.
_SENTENCES: Mapping[type[DataLoss], str] = {
    PartitionGone: (
        "{tp} no longer exists, or is not subscribed any more. The next offset to read was {offset}"
    ),
    TopicRecreated: (
        "topic {topic} was deleted and created again (its id was {topic_id} and is {topic_id_now})."
        " Offset {offset} of {tp} belongs to the old topic"
    ),
    RecordsExpired: (
        "{tp}: offsets {offset} to {expired_end} have expired unread. The log starts at "
        "{log_start_offset}. Keep records longer (retention) to prevent this"
    ),
    LogTruncated: (
        "{tp} was truncated at offset {end_offset} (leader epoch {diverging_epoch}). The records "
        "up to offset {offset}, of leader epoch {leader_epoch}, are lost"
    ),
    OffsetBeyondLog: (
        "{tp}: offset {offset} lies past the log end {high_watermark}. The log was truncated, or "
        "startingOffsets lies past its end"
    ),
}

UNCHECKED_EPOCHS = (
    "the brokers are older than Kafka 2.7 and do not check leader epochs in fetch sessions. So "
    "kfetch may not notice a truncated log that has grown past the query's offset. Keep "
    "unclean.leader.election.enable=false"
)
"""The log line for brokers whose sessions do not check epochs (KAFKA-9338)."""
NO_TOPIC_IDS = (
    "the brokers send no topic ids, as before Kafka 2.8. So kfetch does not notice a topic that "
    "was deleted and created again, if it has grown past the query's offset. Use a new checkpoint "
    "for such a topic"
)
"""The log line for brokers without topic ids (KIP-516)."""

GONE_AFTER_S = 10.0
"""A partition is gone after this many seconds in which no broker has named it.

A broker's metadata may be some seconds old, and an ACL may hide a topic for a moment.
"""


class Absences:
    """Since when several brokers have not named a partition. Times are monotonic seconds.

    The partition is gone after ``GONE_AFTER_S`` seconds. Until then it may be hidden.
    """

    def __init__(self, *, pause_max_s: float = float("inf")) -> None:
        """Looks that lie further apart than ``pause_max_s`` do not count together.

        The partition may have shown between them.
        """
        self._pause_max_s = pause_max_s
        self._looks: dict[TopicPartition, tuple[float, float]] = {}
        """The first and the last look that did not find a partition."""

    def note(
        self, partitions: Iterable[TopicPartition], missing: Collection[TopicPartition], now: float
    ) -> None:
        """Note a look for ``partitions`` that did not find the ``missing`` ones among them."""
        for tp in partitions:
            first, last = self._looks.pop(tp, (now, now))
            if tp in missing:
                self._looks[tp] = (first if now - last <= self._pause_max_s else now), now

    def forget_others(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all but ``partitions``, because nobody looks for the others any more."""
        for tp in self._looks.keys() - set(partitions):
            del self._looks[tp]

    def is_gone(self, tp: TopicPartition, now: float) -> bool:
        """Returns whether no broker has named a partition for long enough."""
        return tp in self._looks and now - self._looks[tp][0] >= GONE_AFTER_S


_ADVICE = "Set failOnDataLoss=false to continue with the remaining records, or use a new checkpoint"
_ADVICE_OF_BATCH = (
    "Set failOnDataLoss=false to read the remaining records, or load the batch again with other "
    "startingOffsets"
)


def find_loss(position: ReadPosition, log: LogAnswer) -> DataLoss | None:
    """Returns the error for a position that the log no longer has; None if the log has it."""
    for kind, holds in _VERDICTS:
        if holds(position, log):
            context = _context(kind, position, log)
            details = {**context, "tp": position.tp, "expired_end": _expired_end(position, log)}
            return kind(_SENTENCES[kind].format(**details), action=_ADVICE, **context)
    return None


def of_batch(loss: DataLoss) -> DataLoss:
    """Returns the same error with advice for a batch read, which has no checkpoint."""
    return type(loss)(loss.what, action=_ADVICE_OF_BATCH, **loss.where)


def unknown_epoch(position: ReadPosition) -> str:
    """Returns the log line for a position whose leader epoch no broker knows.

    That is no loss. A leader answers so if the epoch is newer than all of its own (Kafka's
    LeaderEpochFileCache). So it is an older leader, or its epochs were reset.
    """
    return (
        f"{position.tp}: no broker knows leader epoch {position.leader_epoch} of the next offset "
        f"{position.offset}, so kfetch cannot tell whether the log was truncated. The query "
        "continues at this offset. If the cluster was restored from a backup, compare the records"
    )


def warning(loss: DataLoss) -> str:
    """Returns the log line for a loss that does not fail the query."""
    return f"{loss.what} (failOnDataLoss=false: the query continues)"


def _context(kind: type[DataLoss], position: ReadPosition, log: LogAnswer) -> dict[str, Any]:
    """Returns the attributes of the error."""
    context: dict[str, Any] = {
        "topic": position.tp.topic,
        "partition": position.tp.partition,
        "offset": position.offset,
        "leader_epoch": position.leader_epoch,
    }
    if kind is TopicRecreated:
        context |= {"topic_id": position.topic_id, "topic_id_now": log.topic_id}
    elif kind is RecordsExpired:
        context |= {"log_start_offset": log.log_start}
    elif kind is LogTruncated and log.diverging is not None:
        end_offset, epoch = log.diverging
        context |= {"end_offset": end_offset, "diverging_epoch": epoch}
    elif kind is OffsetBeyondLog:
        context |= {"high_watermark": log.log_end}
    return context


def _expired_end(position: ReadPosition, log: LogAnswer) -> int:
    return log.log_start if position.end is None else min(log.log_start, position.end)
