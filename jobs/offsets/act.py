"""Moving a job's offsets, and putting back what was.

A move is: a backup, then for a replay the rows that come again are deleted, then the micro-batch in
the checkpoint. What is interrupted is noted in the backup, keeps the job from running, and can be
undone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from jobs.config import Job, Project
from jobs.errors import ConfigError, JobsError
from jobs.looks import checkpoint as checkpoints
from jobs.looks.checkpoint import Checkpoint
from jobs.offsets import backup as backups
from jobs.offsets import log
from jobs.offsets.backup import Backup, Stage
from jobs.offsets.moves import Verb
from jobs.offsets.plan import Plan
from jobs.offsets.table import opened, restore
from jobs.run.alone import alone
from spark_source.model import TopicPartition
from spark_source.offsets import Offsets

__all__ = ["Done", "Undoing", "at_rest", "execute", "undo", "undoing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a move has done."""

    batch: int
    """The micro-batch by which the job was moved."""
    backup: Backup
    deleted: dict[str, int] = field(default_factory=dict)
    """Rows, by table."""


@contextmanager
def at_rest(project: Project, job: Job) -> Iterator[None]:
    """Keep the job from running meanwhile. Raises JobsError if it runs, or would be started."""
    from jobs.supervise.machine import Phase
    from jobs.supervise.store import Store
    from jobs.supervise.view import alive

    with alone(job):
        with Store.of(project.storage) as store:
            state = store.states().get(job.name)
            supervised = alive(store.incumbent())
        resting = (Phase.STOPPED, Phase.PAUSED, Phase.FAILED, Phase.FINISHED)
        if supervised and state and job.file.enabled and state.phase not in resting:
            raise JobsError(
                f"job {job.name} is {state.phase}, and its supervisor would start it meanwhile: "
                f"kfetch pause {job.name} first"
            )
        yield


def execute(project: Project, job: Job, plan: Plan, *, give_up_batch: bool = False) -> Done:
    """Do what was planned, within ``at_rest``."""
    backups.check_whole(job)
    if plan.verb is Verb.REPLAY and plan.tables:
        with opened(job, _by_topic(project, job, plan)) as rows:
            backup = _backup(plan, rows.versions())
            deleted = rows.delete(plan.ranges)
        return _moved(plan, backup, deleted)
    _check_pending(job, plan, give_up_batch)
    return _moved(plan, _backup(plan, ()), {})


def _backup(plan: Plan, tables: Sequence[backups.Table]) -> Backup:
    number = log.number_after(plan.checkpoint)
    return backups.make(plan.checkpoint, plan.verb, number, tables, time.time())


def _moved(plan: Plan, backup: Backup, deleted: dict[str, int]) -> Done:
    number = log.add(plan.checkpoint, plan.sources, time.time())
    return Done(batch=number, backup=backup.at(Stage.DONE), deleted=deleted)


def _by_topic(project: Project, job: Job, plan: Plan) -> bool:
    """Whether rows of one partition number may be of several topics."""
    topics = {tp.topic for each in plan.sources if each for tp in each.positions}
    others = project.checked()[0].values()
    shared = any(
        str(place) in plan.tables
        for other in others
        if other.name != job.name
        for place in (other.target, other.dead_letters)
        if place
    )
    return len(topics) > 1 or shared


def _check_pending(job: Job, plan: Plan, give_up_batch: bool) -> None:
    """A batch without its commit may be in the table all the same."""
    if plan.checkpoint.pending and plan.tables and not give_up_batch:
        assert plan.checkpoint.planned is not None
        raise ConfigError(
            f"job {job.name}: micro-batch {plan.checkpoint.planned.number} was planned, and its "
            "end is not noted: the table may have its rows already. Let kfetch run end it, or use "
            "kfetch offsets replay, which deletes them; --give-up-batch takes it for not written"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What ``undo`` would do."""

    job: str
    backup: Backup
    now: Checkpoint
    exact: bool
    """The job has not run since: its checkpoint becomes what it was, file by file."""
    sources: tuple[Offsets | None, ...]
    """Where each source goes on afterwards."""

    def positions(self) -> Iterator[tuple[TopicPartition, int | None, int]]:
        """Each partition, where it is and where it will be."""
        for number, offsets in enumerate(self.sources):
            here = self.now.start(number)
            for tp, position in sorted(offsets.positions.items()) if offsets else ():
                at = here.positions.get(tp) if here else None
                yield tp, at.offset if at else None, position.offset


def undoing(job: Job) -> Undoing:
    """What the undoing of the last move would do. Raises JobsError if there is nothing to undo."""
    now = checkpoints.of(job)
    found = backups.last(now.path)
    if found is None:
        raise JobsError(
            f"job {job.name}: there is no move of its offsets to undo in {now.path}.backups"
        )
    before = found.checkpoint
    if before.query != now.query:
        raise JobsError(
            f"{now.path} is the checkpoint of another query ({now.query}) than {found.path} "
            f"({before.query}): move that backup away"
        )
    return Undoing(
        job=job.name,
        backup=found,
        now=now,
        exact=now.planned is None or now.planned.number <= found.batch,
        sources=tuple(before.start(n) for n in range(before.sources)),
    )


def undo(job: Job, plan: Undoing) -> None:
    """Put back what was, within ``at_rest``."""
    backup = plan.backup.at(Stage.UNDOING)
    if backup.tables:
        restore(job, backup.tables)
    if plan.exact:
        log.remove(plan.now.path, backup.batch)
    else:
        log.add(plan.now, plan.sources, time.time())
    backup.at(Stage.UNDONE)
