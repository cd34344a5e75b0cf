"""The records that wait while a micro-batch runs: the watch's log ends against the last plan. Pure.

Spark reports a lag after each micro-batch only, against the log ends at its planning. A micro-batch
may take minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position


@dataclass(frozen=True, slots=True)
class _PlannedBatch:
    start: Offsets
    end: Offsets
    at_s: float


class Backlog:
    """The last planned micro-batch of one source, and the records behind it."""

    def __init__(self) -> None:
        self._plan: _PlannedBatch | None = None
        self._waiting: tuple[_PlannedBatch, float] | None = None
        """The plan behind which records wait, and when they were first seen."""

    def planned(self, start: Offsets, end: Offsets, now_s: float) -> None:
        """Note a micro-batch. Without new records its end is its start."""
        plan = self._plan
        if plan is None or plan.start is not start or plan.end is not end:
            self._plan = _PlannedBatch(start, end, now_s)

    def document(
        self, log_ends: Iterable[tuple[TopicPartition, Position]], now_s: float
    ) -> dict[str, float | None] | None:
        """Returns the numbers for the report; None before the first plan. Times: since 1970.

        behind         offsets behind the planned micro-batch, in all partitions
        behind_since   they, or some of them, have waited at least since then
        planned        offsets of the micro-batch itself: they wait until it is committed
        planned_at     when it was planned
        end            the sum of its end offsets, by which a reader knows it again
        """
        plan = self._plan
        if plan is None:
            return None
        behind = sum(
            max(0, end.offset - plan.end.positions[tp].offset)
            for tp, end in log_ends
            if tp in plan.end.positions
        )
        return {
            "behind": behind,
            "behind_since": self._waiting_since(plan, behind, now_s),
            "planned": _offsets_between(plan.start, plan.end),
            "planned_at": plan.at_s,
            "end": sum(position.offset for position in plan.end.positions.values()),
        }

    def _waiting_since(self, plan: _PlannedBatch, behind: int, now_s: float) -> float | None:
        if not behind:
            self._waiting = None
        elif self._waiting is None or self._waiting[0] is not plan:
            self._waiting = plan, now_s
        return self._waiting[1] if self._waiting else None


def _offsets_between(start: Offsets, end: Offsets) -> int:
    if start is end:
        return 0
    return sum(
        max(0, position.offset - start.positions[tp].offset)
        for tp, position in end.positions.items()
        if tp in start.positions
    )
