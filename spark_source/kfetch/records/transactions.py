"""Which batches belong to aborted transactions (read_committed, KIP-98).

A Fetch reply lists the aborted transactions as (producer id, first offset). The log holds a marker
at the end of each. Under read_uncommitted there is no list, and every batch passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kfetch.model import TopicPartition
from kfetch.records.cursor import Cursor
from kfetch.records.faults import Fault

_CONTROL_KEY = Struct(">hh")  # version and type, ControlRecordType
_ABORT = 0


class AbortedTransactions:
    """The aborted transactions of one partition. The caller passes its batches in order."""

    def __init__(self, listed: Iterable[tuple[int, int]]) -> None:
        # Redpanda may send them in any order.
        self._not_begun = sorted(((first, producer) for producer, first in listed), reverse=True)
        self._open: set[int] = set()

    def __bool__(self) -> bool:
        """Whether the rest of the reply may hold aborted records."""
        return bool(self._not_begun or self._open)

    def has_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Returns whether a transactional batch of this producer, up to this offset, is aborted."""
        while self._not_begun and self._not_begun[-1][0] <= last_offset:
            self._open.add(self._not_begun.pop()[1])
        return producer_id in self._open

    def remaining(self) -> tuple[tuple[int, int], ...]:
        """Returns the list with which another walk can go on behind this one."""
        begun = [(producer, -1) for producer in sorted(self._open)]
        return (*begun, *((producer, first) for first, producer in self._not_begun))

    def end(self, producer_id: int) -> None:
        """Ends the producer's aborted transaction at its marker. Without one it does nothing."""
        self._open.discard(producer_id)


def is_abort_marker(data: memoryview, tp: TopicPartition, base_offset: int) -> bool:
    """Returns whether the records of a control batch abort a transaction.

    As in Java's ControlRecordType, an unknown type is no abort, and a later version is read like
    version 0. ``data`` must not be empty. Raises CorruptBatch.
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
