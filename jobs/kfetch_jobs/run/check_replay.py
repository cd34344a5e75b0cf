"""Looks, before the first run after a replay, whether Kafka still has the records to read again.

The replay has deleted their rows. With ``failOnDataLoss=true``, the source itself fails for expired
records. With ``false`` it would go on, and the rows would be lost without a word.
"""

from __future__ import annotations

from kfetch_jobs.checkpoints.backup import Stage, last_move
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.checkpoints.log_starts import unreadable
from kfetch_jobs.config import Job
from kfetch_jobs.errors import RecordsLost


def check_replay(job: Job) -> None:
    """Raises RecordsLost if records of the job's last replay have expired before it ran.

    Raises the source's error if the brokers do not answer. Asks them only if the job has not run
    since the replay, and only about sources with ``failOnDataLoss=false``.
    """
    path = local_directory(job)
    move = last_move(path) if path else None
    if path is None or move is None or not move.tables or move.stage is not Stage.DONE:
        return
    planned = read_checkpoint(path).planned
    if planned is None or planned.number != move.batch:
        return
    views = [view for view in job.file.views() if not _fails_on_loss(job, view)]
    if gaps := unreadable(job, views, move.ranges, move.topic_ids):
        more = f" ({len(gaps) - 1} more partitions have such offsets)" if len(gaps) > 1 else ""
        raise RecordsLost(
            f"job {job.name}: {gaps[0]}{more}. The replay has deleted their rows: restore them "
            f"with kfetch offsets undo {job.name} --execute"
        )


def _fails_on_loss(job: Job, view: str) -> bool:
    return job.parsed_options(view).fail_on_data_loss
