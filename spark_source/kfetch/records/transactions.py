"""Which batches belong to aborted transactions (read_committed, KIP-98).

A Fetch reply lists them as (producer id, first offset); the log itself holds a marker where each
ended. It refuses to filter without a list, so under read_uncommitted it passes everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kfetch.model import TopicPartition
from kfetch.records.cursor import Cursor
from kfetch.records.faults import Fault

__all__ = ["AbortedTransactions", "is_abort_marker"]

_CONTROL_KEY = Struct(">hh")  # version and type, ControlRecordType
_ABORT = 0


class AbortedTransactions:
    """The aborted transactions of one partition, while its batches pass in order."""

    def __init__(self, listed: Iterable[tuple[int, int]]) -> None:
        # Redpanda may send them in any order.
        self._coming = sorted(((first, producer) for producer, first in listed), reverse=True)
        self._open: set[int] = set()

    def __bool__(self) -> bool:
        """Whether there may be anything to leave out from here on."""
        return bool(self._coming or self._open)

    def holds(self, producer_id: int, last_offset: int) -> bool:
        """Whether a transactional batch of this producer, up to this offset, was aborted."""
        while self._coming and self._coming[-1][0] <= last_offset:
            self._open.add(self._coming.pop()[1])
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        """The producer's abort marker has come; one without data before it is harmless."""
        self._open.discard(producer_id)


def is_abort_marker(data: memoryview, tp: TopicPartition, base_offset: int) -> bool:
    """Whether a control batch's records say that a transaction was aborted.

    Types that are unknown are no abort, and a later version reads as version 0, as in Java's
    ControlRecordType. ``data`` must not be empty.
    """
    cursor = Cursor(data, tp, base_offset)
    cursor.enter_record()
    cursor.byte()
    cursor.varint(64)
    cursor.varint()
    key = cursor.blob(Fault.KEY_LENGTH) or b""
    if len(key) < _CONTROL_KEY.size or _CONTROL_KEY.unpack_from(key)[0] < 0:
        raise cursor.fail(Fault.CONTROL)
    return bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)
