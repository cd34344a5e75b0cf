"""Carries out a planned move of a job's offsets.

A move makes a backup, deletes the rows that a replay writes again, and adds a micro-batch to the
checkpoint. The backup records how far the move got. After an interrupted move, the job does not run
until you undo the move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints.backup import Backup, OffsetRange, Stage
from kfetch_jobs.checkpoints.checkpoint import check_movable
from kfetch_jobs.checkpoints.log_starts import unreadable
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.offsets.moves import Verb, margin
from kfetch_jobs.offsets.plan import MovePlan, check_no_earlier_topic
from kfetch_jobs.offsets.shared_tables import (
    check_topics_distinct,
    jobs_on_same_tables,
    other_queries,
)
from kfetch_jobs.offsets.table_rows import AppendedRows, open_rows
from kfetch_jobs.progress.progress_file import append_replayed
from kfetch_jobs.run.job_lock import hold_job
from kfetch_jobs.run.tables import Check
from kfetch_jobs.util.wording import counted

Report = Callable[[str], None]
"""Gets a sentence at the beginning of each step of a move."""


def silent(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """The result of a move."""

    batch: int
    """The number of the micro-batch that moved the job."""
    backup: Backup
    deleted: dict[str, int] = field(default_factory=dict)
    """The number of deleted rows, by table."""

    @property
    def other_queries(self) -> dict[str, list[str]]:
        """The queries, by table, whose rows of the same topics and offsets were deleted too."""
        return other_queries(self.backup.tables, self.backup.checkpoint.query)


@contextmanager
def jobs_at_rest(project: Project, moved: Job, *others: Job) -> Iterator[Check]:
    """Keep a job whose offsets move, and others, from running during the block.

    Yields what to call before each change: it raises LeaseLost if one may run by now. Raises
    JobsError if one runs, on any host, or if its supervisor would start it.
    """
    check_movable(moved)
    jobs = (moved, *others)
    from kfetch_jobs.supervise.job_state import Phase
    from kfetch_jobs.supervise.leadership import read_lead
    from kfetch_jobs.supervise.status_reader import supervisor_alive
    from kfetch_jobs.supervise.store import Store

    resting = (Phase.STOPPED, Phase.PAUSED, Phase.FAILED, Phase.FINISHED)
    with ExitStack() as locks:
        fences = [locks.enter_context(hold_job(job, "kfetch offsets")) for job in jobs]
        with Store.of(project.storage) as store:
            lead = read_lead(project, store)
            states = store.states()
            here = supervisor_alive(store.last_supervisor())
            supervised = here or (lead is not None and not lead.vacant)
        for job in jobs:
            state = states.get(job.name)
            if supervised and state and job.file.enabled and state.phase not in resting:
                raise JobsError(
                    f"job {job.name} is {state.phase}, and its supervisor would start it "
                    f"meanwhile: kfetch pause {job.name} first"
                )

        def check() -> None:
            for fence in fences:
                fence.check()

        yield check


def execute(
    project: Project,
    job: Job,
    plan: MovePlan,
    check: Check,
    *,
    give_up_batch: bool = False,
    several_rows: bool = False,
    report: Report = silent,
) -> MoveResult:
    """Carry out a plan, within ``jobs_at_rest``, which yields ``check``.

    For a replay, the jobs of ``jobs_on_same_tables`` must be at rest too. With ``give_up_batch``,
    kfetch assumes that an unfinished micro-batch was not written. ``several_rows`` allows more rows
    than offsets. ``report`` gets the steps.

    Raises JobsError, and changes nothing, if Kafka may not keep what a replay reads again.
    """
    backups.check_no_interrupted_move(job)
    if plan.verb is Verb.REPLAY and plan.tables:
        return _replay(project, job, plan, several_rows, report, check)
    _check_pending(job, plan, give_up_batch)
    return _add_batch(plan, _backup(plan), {}, check)


def _replay(
    project: Project,
    job: Job,
    plan: MovePlan,
    several_rows: bool,
    report: Report,
    check: Check,
) -> MoveResult:
    topics = {one.topic for one in plan.ranges}
    check_topics_distinct(job, topics, jobs_on_same_tables(project, job))
    report("starting Spark, for the tables")
    read, query = topics | plan.topics_read.keys(), plan.checkpoint.query
    with open_rows(job) as rows:
        rows.check_result()
        report(f"counting the rows of these offsets in {', '.join(plan.tables)}")
        found = rows.count(plan.ranges, read, query)
        counts = {name: sum(of_range.values()) for name, of_range in found.items()}
        ranges = [one for one in plan.ranges if any(one in of for of in found.values())]
        _check_any_rows(job, plan, counts, rows)
        check_no_earlier_topic(plan, {one.topic for one in ranges})
        if not several_rows:
            _check_row_counts(job, found)
        touched = {name for name, count in counts.items() if count}
        report("asking Kafka once more for the log starts")
        _check_readable(job, plan, ranges)
        versions = rows.versions(touched)
        for name, queries in other_queries(versions, query).items():
            others = counted(len(queries), "other query", "other queries")
            report(f"{name} also has rows of {others}: those of these topics and offsets go too")
        backup = _backup(plan, versions, ranges)
        deleted: dict[str, int] = {}
        for name in sorted(touched):
            report(f"deleting {counted(counts[name], 'row')} from {name}")
            check()
            deleted[name] = rows.delete(ranges, read, query, name)
    for name in touched:
        if deleted[name] != counts[name]:
            raise JobsError(
                f"job {job.name}: {name} had {counts[name]:,} rows to delete, and "
                f"{deleted[name]:,} were deleted: somebody else has written to it meanwhile; "
                f"kfetch offsets undo {job.name} --execute puts back what was"
            )
    moved = _add_batch(plan, backup, counts | deleted, check)
    with suppress(OSError):  # only the page reads it
        append_replayed(job.directory, plan.end, moved.batch)
    return moved


def _check_readable(job: Job, plan: MovePlan, ranges: Sequence[OffsetRange]) -> None:
    """Raises JobsError if Kafka may not keep the records of rows that a replay deletes.

    Retention moves log starts between the plan and the deletion of rows, too. A log that has lost
    records before may lose more. So a replay stays away from its start by a margin, and half of it
    must be left. It asks the brokers for the log starts. Raises ConfigError if they are of another
    cluster.
    """

    def half_margin(log_start: int, log_end: int) -> int:
        return margin(log_start, log_end, plan.margin_percent) // 2

    if gaps := unreadable(job, [*job.file.views()], ranges, plan.topic_ids, half_margin):
        more = f" ({len(gaps) - 1} more partitions have such offsets)" if len(gaps) > 1 else ""
        risk = "; if the records are not gone yet, --margin 0 takes the risk"
        risk = risk if all(gap.log_start is not None for gap in gaps) else ""
        raise JobsError(
            f"job {job.name}: {gaps[0]}{more}. Nothing has changed: replay from a later offset"
            f"{risk}"
        )


def _check_any_rows(
    job: Job, plan: MovePlan, counts: Mapping[str, int], rows: AppendedRows
) -> None:
    """Raises JobsError if the table has rows, but none of these offsets: they might come twice."""
    target = str(job.target)
    if plan.reread and target in counts and not any(counts.values()) and rows.has_rows(target):
        raise JobsError(
            f"job {job.name}: {plan.reread:,} offsets would come again, and {target} has not one "
            "row of theirs: either its columns partition, offset and topic are not the record's "
            "place, or the transform drops them all; nothing was moved. If there is nothing to "
            "delete, kfetch offsets reset does the same"
        )


def _check_row_counts(job: Job, found: Mapping[str, Mapping[OffsetRange, int]]) -> None:
    """Raises JobsError if a table has more rows of a partition than offsets.

    The transform may make several of each record, or the rows are of a topic that nobody noted.
    """
    for name, counts in found.items():
        for one, count in counts.items():
            if count > one.end - one.begin:
                raise JobsError(
                    f"job {job.name}: {name} has {count:,} rows of {one.topic}-{one.partition}, "
                    f"and {one.end - one.begin:,} of its offsets come again: some rows may be of "
                    "an earlier topic of that name, and those would not come again; "
                    "--several-rows deletes them all, if the transform makes several of a record "
                    "or a reset has doubled them"
                )


def _backup(
    plan: MovePlan,
    tables: Sequence[backups.TableVersion] = (),
    ranges: Sequence[OffsetRange] = (),
) -> Backup:
    number = checkpoint_log.next_batch_number(plan.checkpoint)
    return backups.create_backup(
        plan.checkpoint, plan.verb, number, tables, time.time(), ranges, plan.topic_ids
    )


def _add_batch(plan: MovePlan, backup: Backup, deleted: dict[str, int], check: Check) -> MoveResult:
    check()
    number = checkpoint_log.add_batch(plan.checkpoint, plan.sources, time.time())
    return MoveResult(batch=number, backup=backup.record_stage(Stage.DONE), deleted=deleted)


def _check_pending(job: Job, plan: MovePlan, give_up_batch: bool) -> None:
    """Raises ConfigError for a batch without its commit: the table may have its rows already."""
    if plan.checkpoint.pending and plan.tables and not give_up_batch:
        assert plan.checkpoint.planned is not None
        raise ConfigError(
            f"job {job.name}: micro-batch {plan.checkpoint.planned.number} was planned, and its "
            "end is not noted: the table may have its rows already. Let kfetch run end it, or use "
            "kfetch offsets replay, which deletes them; --give-up-batch takes it for not written"
        )
