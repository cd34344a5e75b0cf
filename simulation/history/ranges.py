"""What must hold of a range: it takes the records at its position, and waits for a limited time.

Simulated logs have no gaps, so the first batch that a range takes begins at its position, or below.

A broker that is asked in vain is asked for the poll timeout at most, also after a move from another
one. Only a range that waits for another range, or for memory, may wait longer. The time of each
range is measured here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kfetch.agent.shared_broker import SharedBroker
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.progress import RangeProgress
from simulation.kernel import Kernel

_ROUNDING_S = 0.5


@contextmanager
def positions_checked(fail: Callable[[str], object]) -> Iterator[None]:
    """A context in which the records that a range takes are compared with its position."""
    accept = BrokerReader.accept_records

    def checked(self: BrokerReader, progress: RangeProgress, partition: Any) -> Any:
        first = int.from_bytes(partition.records[:8], "big")
        if first > progress.offset:
            fail(f"{progress.tp} takes records from offset {first} on at {progress.offset}")
        return accept(self, progress, partition)

    with patch.object(BrokerReader, "accept_records", checked):
        yield


@contextmanager
def waits_measured(kernel: Kernel, fail: Callable[[str], object]) -> Iterator[None]:
    """A context in which each range that reaches its deadline is checked."""
    start, drop, advance = BrokerReader._start, BrokerReader.drop, RangeProgress.advance
    since = SharedBroker.requested_since
    begun: dict[RangeProgress, float] = {}
    """When a broker was first asked for a range that it is asked for now."""
    asked_s: dict[RangeProgress, float] = {}
    """For how long other brokers were asked before it, without records."""

    def noted_start(self: BrokerReader, progress: RangeProgress) -> None:
        begun[progress] = kernel.now
        start(self, progress)

    def noted_drop(self: BrokerReader, progress: RangeProgress) -> None:
        if self._queues.get(progress.tp, [None])[0] is progress:
            waited_s = kernel.now - max(begun.pop(progress), self.requests_since())
            asked_s[progress] = asked_s.get(progress, 0.0) + max(0.0, waited_s)
        drop(self, progress)

    def noted_advance(self: RangeProgress, extent: Any) -> bool:
        moved = advance(self, extent)
        if moved:
            asked_s[self] = 0.0
            begun.update(dict.fromkeys(begun.keys() & {self}, kernel.now))
        return moved

    def checked_since(self: SharedBroker, progress: RangeProgress) -> float:
        found = since(self, progress)
        if progress in begun and not self._reader.is_queued(progress):
            asked = max(begun[progress], self._memory.requested_since)
            if found > asked - asked_s.get(progress, 0.0) + _ROUNDING_S:
                fail(f"{progress.tp} gets more time than the poll timeout: it moved")
        return found

    with (
        patch.object(BrokerReader, "_start", noted_start),
        patch.object(BrokerReader, "drop", noted_drop),
        patch.object(RangeProgress, "advance", noted_advance),
        patch.object(SharedBroker, "requested_since", checked_since),
    ):
        yield
