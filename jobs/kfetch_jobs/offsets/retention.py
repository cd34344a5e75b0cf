"""Refuses to delete rows whose records may not come again.

Retention also moves log starts between a plan and the deletion of rows. So ``replay`` and ``undo``
ask for the log starts again, right before they change a table. A log that has lost records before
may lose more. So a replay stays away from its start by a margin, and half of it must be left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.checkpoints.log_starts import unreadable
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets.moves import margin

Check = Callable[[Sequence[OffsetRange]], bool]


def check_readable(
    job: Job,
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, str],
    margin_percent: int,
    *,
    way_out: str = "replay from a later offset",
    must_return: Check | None = None,
) -> None:
    """Raise JobsError if Kafka may not keep all records of these offsets until a run reads them.

    ``way_out`` says what the user can do. ``must_return`` says whether the caller needs any of the
    offsets that Kafka may not keep; without it, the caller does. ``topic_ids`` are the ids of the
    topics that the offsets are of.

    It asks the brokers for the log starts. ``margin_percent`` is the margin of the plan. Raises
    ConfigError if the brokers are of another cluster.
    """

    def half_margin(log_start: int, log_end: int) -> int:
        return margin(log_start, log_end, margin_percent) // 2

    gaps = unreadable(job, [*job.file.views()], ranges, topic_ids, half_margin)
    if gaps and (must_return is None or must_return([gap.offsets for gap in gaps])):
        more = f" ({len(gaps) - 1} more partitions have such offsets)" if len(gaps) > 1 else ""
        risk = "; if the records are not gone yet, --margin 0 takes the risk"
        risk = risk if all(gap.log_start is not None for gap in gaps) else ""
        raise JobsError(f"job {job.name}: {gaps[0]}{more}. Nothing has changed: {way_out}{risk}")
