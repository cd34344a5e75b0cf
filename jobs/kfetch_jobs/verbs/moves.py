"""``kfetch offsets reset`` and ``replay``: move the offsets of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.util.wording import counted
from kfetch_jobs.verbs.arguments import JobName, with_project
from kfetch_jobs.verbs.text import offset, table

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Job, Project
    from kfetch_jobs.offsets.execution import MoveResult
    from kfetch_jobs.offsets.moves import Move, Verb
    from kfetch_jobs.offsets.plan import MovePlan
    from kfetch_jobs.offsets.target import MoveTarget

LINES_MAX = 20
"""The number of partitions in a list. ``--partitions`` shows all of them."""

ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="Move to the start of the log.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="Move to the end of the log.")]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Move to the first record at this time or later (ISO 8601, by default in UTC).",
    ),
]
Ago = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Move to the first record of the last two hours (2h), or another span of time.",
    ),
]
Shift = Annotated[
    int | None, typer.Option(metavar="N", help="Move ahead by N offsets. A negative N moves back.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Move to the offsets in this file. It has the output of offsets show --json, or "
        '{"clicks": {"0": 12}}.',
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:0,1]", help="Move only this topic, or some of its partitions."
    ),
]
AllPartitions = Annotated[
    bool, typer.Option("--partitions", help="Show each partition, even if there are many.")
]
Execute = Annotated[
    bool,
    typer.Option("--execute", help="Make the change. Without it, the command only shows the plan."),
]
MarginPercent = Annotated[
    int,
    typer.Option(
        metavar="PERCENT",
        min=0,
        max=100,
        help="How much of a log's start to leave out, in %, because retention may delete it soon. "
        "0 takes the risk.",
    ),
]


def report(step: str) -> None:
    """Print the step that begins, to stderr."""
    typer.echo(f"kfetch: {step} …", err=True)


@with_project
def reset(
    job: JobName,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_datetime: Time = None,
    by_duration: Ago = None,
    shift_by: Shift = None,
    from_file: File = None,
    topic: Topics = None,
    give_up_batch: Annotated[
        bool,
        typer.Option(help="Treat a planned micro-batch without a commit as not written."),
    ] = False,
    partitions: AllPartitions = False,
    execute: Execute = False,
    *,
    project: Project,
    as_json: Json = False,
) -> None:
    """Move a job's offsets back or ahead in its topics. The command leaves the table alone.

    After a move back, the job reads records again, and an append table has their rows twice. Use
    replay to avoid that. After a move ahead, the job never reads the skipped records. The plan has
    both numbers for each partition.

    Stop or pause the job first. Without --execute nothing changes. kfetch copies the checkpoint,
    so that kfetch offsets undo can restore it.

    \b
    Example: skip records that nobody needs
      kfetch pause clicks
      kfetch offsets reset clicks --to-latest
      kfetch offsets reset clicks --to-latest --execute && kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, to_latest, to_datetime, by_duration, shift_by, from_file)
    move = partial(_move, project, job, Verb.RESET, target, topic or [])
    move(execute=execute, partitions=partitions, as_json=as_json, give_up_batch=give_up_batch)


@with_project
def replay(
    job: JobName,
    to_earliest: ToEarliest = False,
    to_datetime: Time = None,
    by_duration: Ago = None,
    shift_by: Shift = None,
    from_file: File = None,
    topic: Topics = None,
    several_rows: Annotated[
        bool,
        typer.Option(
            "--several-rows",
            help="Allow more deleted rows than offsets: a record may have several rows.",
        ),
    ] = False,
    margin: MarginPercent = 1,
    partitions: AllPartitions = False,
    execute: Execute = False,
    *,
    project: Project,
    as_json: Json = False,
) -> None:
    """Read records again from an earlier offset. Afterwards the table has each row once.

    kfetch first deletes the rows of these offsets from an append table and from the dead letters.
    It finds the rows by the columns topic, partition and offset. The transform must keep these
    columns. Without topic, the table must have rows of one topic and of this job alone. A merge
    needs no deletion, because it replaces its rows.

    Stop or pause the job first. Also stop other jobs that write the same table. They must not read
    the same topic. Without --execute nothing changes. With it, kfetch starts Spark for the
    deletion. kfetch copies the checkpoint, so that kfetch offsets undo can restore it.

    \b
    Some rows and records need care:
    - Kafka may have deleted old records by retention. Their rows stay in the table.
    - Retention may delete the first records of a log soon. Their rows stay, too (--margin).
    - Compaction may have deleted records. Their rows do not come again.
    - Streaming readers of the Delta table see that rows are deleted.

    \b
    Example: replay after you have corrected the transform
      kfetch pause clicks
      kfetch offsets replay clicks --to-datetime 2026-11-21T18:30 --execute
      kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, False, to_datetime, by_duration, shift_by, from_file)
    move = partial(_move, project, job, Verb.REPLAY, target, topic or [], margin=margin)
    move(execute=execute, partitions=partitions, as_json=as_json, several_rows=several_rows)


def _target(
    earliest: bool,
    latest: bool,
    at: str | None,
    ago: str | None,
    shift: int | None,
    file: Path | None,
) -> MoveTarget:
    from kfetch_jobs.offsets import target
    from kfetch_jobs.verbs import targets

    targets_given: list[MoveTarget] = []
    targets_given += [target.EARLIEST] if earliest else []
    targets_given += [target.LATEST] if latest else []
    targets_given += [targets.of_time(at)] if at is not None else []
    targets_given += [targets.of_duration(ago, time.time())] if ago is not None else []
    targets_given += [target.shifted(shift)] if shift is not None else []
    targets_given += [targets.of_file(file)] if file is not None else []
    if len(targets_given) != 1:
        raise ConfigError(
            f"name one target, not {len(targets_given)}: --to-earliest, --to-latest (reset "
            "alone), --to-datetime, --by-duration, --shift-by or --from-file"
        )
    return targets_given[0]


def _move(
    project: Project,
    name: str,
    verb: Verb,
    target: MoveTarget,
    topics: Sequence[str],
    *,
    execute: bool,
    partitions: bool,
    as_json: bool,
    margin: int = 0,
    **allowed: bool,
) -> None:
    """``margin``: of a replay at the log starts, in percent. ``allowed``: see ``execute``."""
    from kfetch_jobs.offsets import execution
    from kfetch_jobs.offsets.moves import TopicChoice, Verb
    from kfetch_jobs.offsets.plan import plan_move
    from kfetch_jobs.offsets.shared_tables import jobs_on_same_tables
    from kfetch_jobs.run.tables import unfenced

    job = project.job(name)
    choices = [TopicChoice.of(text) for text in topics]
    done: MoveResult | None = None
    others = jobs_on_same_tables(project, job) if verb is Verb.REPLAY else []
    rest = execution.jobs_at_rest(project, job, *others) if execute else nullcontext(unfenced)
    with rest as check:
        plan = plan_move(job, verb, target, choices, margin)
        if not as_json:
            _show(plan, partitions)
            show_others(others)
        if execute:
            done = execution.execute(project, job, plan, check, report=report, **allowed)
    if as_json:
        typer.echo(json.dumps(_json(plan, done, others)))
    elif done is None:
        typer.echo("nothing has changed: use --execute, while the job is paused or stopped")
    else:
        _show_done(plan, done)


def _show(plan: MovePlan, all_partitions: bool) -> None:
    from kfetch_jobs.offsets.moves import Verb

    typer.echo(f"{plan.job}: {plan.verb} to {plan.target}")
    if plan.checkpoint.pending and plan.checkpoint.planned:
        number = plan.checkpoint.planned.number
        typer.echo(f"  micro-batch {number} is planned and not committed: the move gives it up")
    for tp in plan.dropped:
        typer.echo(f"  {tp} no longer exists: the job goes on without it")
    moving = [move for move in plan.moves if move.moves]
    _table(moving if all_partitions else sorted(moving, key=_size)[:LINES_MAX])
    show_rest(0 if all_partitions else len(moving) - LINES_MAX)
    typer.echo(
        f"{len(moving):,} of {len(plan.moves):,} partitions move: the job reads {plan.reread:,} "
        f"offsets again and skips {plan.skipped:,}"
    )
    for name in plan.tables:
        if plan.verb is Verb.REPLAY and not plan.reread:
            typer.echo(
                "no partition moves back: kfetch deletes only rows of offsets that the job has yet "
                f"to read, if {name} has any"
            )
        elif plan.verb is Verb.REPLAY:
            typer.echo(
                f"kfetch first deletes the rows of these offsets in {name}, whichever query wrote "
                "them"
            )
        elif plan.reread:
            typer.echo(f"{name} will have these rows twice: kfetch offsets replay avoids that")


def show_rest(left_out: int) -> None:
    """Print how many partitions a list leaves out, if there are any."""
    if left_out > 0:
        typer.echo(f"  and {left_out:,} more: --partitions shows all")


def show_others(others: Sequence[Job]) -> None:
    """Print the names of other jobs that write to the same tables."""
    for other in others:
        typer.echo(f"job {other.name} writes to the same table: it must not run meanwhile")


def _size(move: Move) -> tuple[int, Any]:
    return -move.reread - move.skipped, move.tp


def _table(moves: Sequence[Move]) -> None:
    rows = [
        (
            f"  {move.tp}",
            offset(move.before),
            offset(move.after),
            f"{move.reread:,}",
            f"{move.skipped:,}",
            move.limit,
        )
        for move in sorted(moves, key=lambda move: move.tp)
    ]
    if rows:
        table(("  partition", "from", "to", "again", "skipped", ""), rows)


def _show_done(plan: MovePlan, done: MoveResult) -> None:
    for name, rows in done.deleted.items():
        typer.echo(f"deleted {counted(rows, 'row')} from {name}")
    typer.echo(
        f"done, as micro-batch {done.batch}; a copy of the checkpoint is in {done.backup.path}; "
        f"undo it with: kfetch offsets undo {plan.job} --execute"
    )
    typer.echo(
        f"let the job go on: kfetch resume {plan.job}, if it is paused, or kfetch start {plan.job}"
    )


def _json(plan: MovePlan, done: MoveResult | None, others: Sequence[Job]) -> dict[str, Any]:
    pending = plan.checkpoint.planned.number if plan.checkpoint.planned else None
    return {
        "job": plan.job,
        "verb": plan.verb,
        "executed": done is not None,
        "batch": done.batch if done else None,
        "backup": str(done.backup.path) if done else None,
        "deleted": done.deleted if done else None,
        "other_queries": done.other_queries if done else None,
        "given_up": pending if plan.checkpoint.pending else None,
        "again": plan.reread,
        "skipped": plan.skipped,
        "tables": list(plan.tables),
        "shared_with": [other.name for other in others],
        "dropped": [tp._asdict() for tp in plan.dropped],
        "partitions": [
            move.tp._asdict()
            | {"from": move.before, "to": move.after, "again": move.reread, "skipped": move.skipped}
            for move in plan.moves
        ],
    }
