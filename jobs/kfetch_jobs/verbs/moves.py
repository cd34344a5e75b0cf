"""``kfetch offsets reset``, ``replay`` and ``undo``: move the offsets of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kfetch_jobs.errors import ConfigError
from kfetch_jobs.util.plural import counted
from kfetch_jobs.verbs.arguments import Environment, JobName, Json, ProjectFile, project_of
from kfetch_jobs.verbs.text import offset, table

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Job
    from kfetch_jobs.offsets.execution import MoveResult
    from kfetch_jobs.offsets.moves import Move, Verb
    from kfetch_jobs.offsets.plan import MovePlan
    from kfetch_jobs.offsets.target import Target
    from kfetch_jobs.offsets.undo import UndoPlan

__all__ = ["add"]

_LINES_MAX = 20
"""The number of partitions in a list. ``--partitions`` shows all of them."""

Earliest = Annotated[bool, typer.Option("--to-earliest", help="Move to the start of the log.")]
Latest = Annotated[bool, typer.Option("--to-latest", help="Move to the end of the log.")]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Move to the first record at this time or later (ISO 8601, by default in local time).",
    ),
]
Ago = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Move to the first record of this last span of time, as in 2h."
    ),
]
Shift = Annotated[
    int | None, typer.Option(metavar="N", help="Move ahead by N offsets, or back if N is negative.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Move to the offsets of a file: offsets show --json, or {"clicks": {"0": 12}}.',
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
    bool, typer.Option("--execute", help="Do it. By default the command shows the plan only.")
]


def add(app: typer.Typer) -> None:
    """Mount the verbs."""
    app.command(short_help="Move a job's offsets, and leave its table alone.")(reset)
    app.command(short_help="Read records again; the table has each row once.")(replay)
    app.command(short_help="Undo the last reset or replay.")(undo)


def reset(
    job: JobName,
    to_earliest: Earliest = False,
    to_latest: Latest = False,
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
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Move a job's offsets back or ahead in its topics. The command leaves the table alone.

    After a move back, the job reads records again, and an append table has their rows twice. Use
    replay to avoid that. After a move ahead, the job never reads the skipped records. The plan has
    both numbers for each partition. Without --execute nothing changes. Stop or pause the job
    first. kfetch copies the checkpoint, so offsets undo can restore it.

    \b
    Example: skip records that nobody needs
      kfetch pause clicks
      kfetch offsets reset clicks --to-latest
      kfetch offsets reset clicks --to-latest --execute && kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, to_latest, to_datetime, by_duration, shift_by, from_file)
    request = _MoveRequest(
        job, Verb.RESET, target, topic or [], execute, give_up_batch=give_up_batch
    )
    _move(request, project, environment, partitions, as_json)


def replay(
    job: JobName,
    to_earliest: Earliest = False,
    to_datetime: Time = None,
    by_duration: Ago = None,
    shift_by: Shift = None,
    from_file: File = None,
    topic: Topics = None,
    several_rows: Annotated[
        bool,
        typer.Option(
            "--several-rows",
            help="A record may have several rows: allow more deleted rows than offsets.",
        ),
    ] = False,
    partitions: AllPartitions = False,
    execute: Execute = False,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Read records again from an earlier offset, so that the table has each row once.

    Partitions only move back. kfetch first deletes the rows of these offsets from an append table
    and from the dead letters. It finds them by the columns partition and offset, and by topic if
    there are several topics. The transform must keep these columns. Other jobs that write the same
    table must be stopped, and must not read the same topic. A merge replaces its rows by itself.
    With --execute kfetch starts Spark for the deletion; without it, it shows the plan only.
    Records that Kafka has already deleted (retention, compaction) do not come again. kfetch copies
    the checkpoint, so offsets undo can restore it.

    \b
    Example: replay after you have corrected the transform
      kfetch pause clicks
      kfetch offsets replay clicks --to-datetime 2026-11-21T18:30 --execute
      kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, False, to_datetime, by_duration, shift_by, from_file)
    request = _MoveRequest(
        job, Verb.REPLAY, target, topic or [], execute, several_rows=several_rows
    )
    _move(request, project, environment, partitions, as_json)


@dataclass(frozen=True, slots=True)
class _MoveRequest:
    """The arguments of a reset or a replay."""

    job: str
    verb: Verb
    target: Target
    topics: Sequence[str]
    execute: bool
    give_up_batch: bool = False
    several_rows: bool = False


def _target(
    earliest: bool,
    latest: bool,
    at: str | None,
    ago: str | None,
    shift: int | None,
    file: Path | None,
) -> Target:
    from kfetch_jobs.offsets import target
    from kfetch_jobs.verbs import targets

    targets_given: list[Target] = []
    targets_given += [target.Earliest()] if earliest else []
    targets_given += [target.Latest()] if latest else []
    targets_given += [targets.of_time(at)] if at is not None else []
    targets_given += [targets.of_duration(ago, time.time())] if ago is not None else []
    targets_given += [target.Shifted(shift)] if shift is not None else []
    targets_given += [targets.of_file(file)] if file is not None else []
    if len(targets_given) != 1:
        raise ConfigError(
            f"name one target, not {len(targets_given)}: --to-earliest, --to-latest (reset "
            "alone), --to-datetime, --by-duration, --shift-by or --from-file"
        )
    return targets_given[0]


def _move(
    request: _MoveRequest,
    project: Path | None,
    environment: str | None,
    all_partitions: bool,
    as_json: bool,
) -> None:
    from kfetch_jobs.offsets.execution import execute, jobs_at_rest
    from kfetch_jobs.offsets.moves import TopicChoice, Verb
    from kfetch_jobs.offsets.plan import plan_move
    from kfetch_jobs.offsets.shared_tables import jobs_on_same_tables

    loaded = project_of(project, environment)
    job = loaded.job(request.job)
    choices = [TopicChoice.of(text) for text in request.topics]
    done: MoveResult | None = None
    others = jobs_on_same_tables(loaded, job) if request.verb is Verb.REPLAY else []
    with jobs_at_rest(loaded, job, *others) if request.execute else nullcontext():
        plan = plan_move(job, request.verb, request.target, choices)
        if not as_json:
            _show(plan, all_partitions)
            _show_others(others)
        if request.execute:
            done = execute(
                loaded,
                job,
                plan,
                give_up_batch=request.give_up_batch,
                several_rows=request.several_rows,
            )
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
        typer.echo(f"  {tp} no longer exists: the checkpoint forgets it")
    moving = [move for move in plan.moves if move.moves]
    _table(moving if all_partitions else sorted(moving, key=_size)[:_LINES_MAX])
    _show_rest(0 if all_partitions else len(moving) - _LINES_MAX)
    typer.echo(
        f"{len(moving):,} of {len(plan.moves):,} partitions move: the job reads {plan.again:,} "
        f"offsets again and skips {plan.skipped:,}"
    )
    for name in plan.tables:
        if plan.verb is Verb.REPLAY:
            typer.echo(f"kfetch first deletes the rows of the offsets behind the move from {name}")
        elif plan.again:
            typer.echo(f"{name} will have these rows twice: kfetch offsets replay avoids that")


def _show_rest(left_out: int) -> None:
    if left_out > 0:
        typer.echo(f"  and {left_out:,} more: --partitions shows all")


def _show_others(others: Sequence[Job]) -> None:
    for other in others:
        typer.echo(f"job {other.name} writes to the same table: it must not run meanwhile")


def _size(move: Move) -> tuple[int, Any]:
    return -move.again - move.skipped, move.tp


def _table(moves: Sequence[Move]) -> None:
    rows = [
        (
            f"  {move.tp}",
            offset(move.before),
            offset(move.after),
            f"{move.again:,}",
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


def _json(plan: MovePlan, done: MoveResult | None, others: Sequence[Job]) -> dict[str, Any]:
    pending = plan.checkpoint.planned.number if plan.checkpoint.planned else None
    return {
        "job": plan.job,
        "verb": plan.verb,
        "executed": done is not None,
        "batch": done.batch if done else None,
        "backup": str(done.backup.path) if done else None,
        "deleted": done.deleted if done else None,
        "given_up": pending if plan.checkpoint.pending else None,
        "again": plan.again,
        "skipped": plan.skipped,
        "tables": list(plan.tables),
        "shared_with": [other.name for other in others],
        "dropped": [{"topic": tp.topic, "partition": tp.partition} for tp in plan.dropped],
        "partitions": [
            {
                "topic": move.tp.topic,
                "partition": move.tp.partition,
                "from": move.before,
                "to": move.after,
                "again": move.again,
                "skipped": move.skipped,
            }
            for move in plan.moves
        ],
    }


def undo(
    job: JobName,
    partitions: AllPartitions = False,
    execute: Execute = False,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Undo the last reset or replay that was not undone yet.

    If the job has not run since the move, kfetch restores its checkpoint. Otherwise the job goes on
    at the offsets from before the move. kfetch restores tables from which a replay has deleted rows
    to their versions from before; every later write to them is lost. From the other tables of a
    replay it deletes the job's rows since then; after a reset they keep their rows. Other jobs that
    write these tables must be stopped. Without --execute nothing changes.

    \b
    Example: undo a replay of one job
      kfetch offsets undo clicks --execute
    """
    from kfetch_jobs.offsets import undo as undoing
    from kfetch_jobs.offsets.execution import jobs_at_rest
    from kfetch_jobs.offsets.shared_tables import jobs_on_same_tables

    loaded_project = project_of(project, environment)
    loaded = loaded_project.job(job)
    others = (
        jobs_on_same_tables(loaded_project, loaded) if undoing.plan_undo(loaded).rewrites else []
    )
    with jobs_at_rest(loaded_project, loaded, *others) if execute else nullcontext():
        plan = undoing.plan_undo(loaded)
        if not as_json:
            _show_undoing(plan, partitions)
            _show_others(others)
        if execute:
            undoing.undo(loaded_project, loaded, plan)
    if as_json:
        typer.echo(json.dumps(_undoing_json(plan, execute, others)))
    else:
        typer.echo("done" if execute else "nothing has changed: use --execute")


def _show_undoing(plan: UndoPlan, all_partitions: bool) -> None:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(plan.backup.at_s))
    typer.echo(f"{plan.job}: undo the {plan.backup.verb} of {at}, from {plan.backup.path}")
    if not plan.exact:
        typer.echo("  the job has run since: it goes on at the offsets from before the move")
    for table_version in plan.backup.tables:
        typer.echo(
            f"  kfetch restores {table_version.name} to version {table_version.version}; "
            "every later write to it is lost"
        )
    for tp in plan.new_partitions[: None if all_partitions else _LINES_MAX]:
        typer.echo(f"  {tp} is new since then: its offset stays")
    rows = [(f"  {tp}", offset(here), offset(there)) for tp, here, there in _changed(plan)]
    printed = rows if all_partitions else rows[:_LINES_MAX]
    if printed:
        table(("  partition", "from", "to"), printed)
    _show_rest(len(rows) - len(printed))


def _changed(plan: UndoPlan) -> list[tuple[Any, int | None, int]]:
    return [(tp, here, there) for tp, here, there in plan.positions() if here != there]


def _undoing_json(plan: UndoPlan, executed: bool, others: Sequence[Job]) -> dict[str, Any]:
    return {
        "job": plan.job,
        "undoes": plan.backup.verb,
        "backup": str(plan.backup.path),
        "executed": executed,
        "exact": plan.exact,
        "tables": {restored.name: restored.version for restored in plan.backup.tables},
        "shared_with": [other.name for other in others],
        "kept": [{"topic": tp.topic, "partition": tp.partition} for tp in plan.new_partitions],
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "from": here, "to": there}
            for tp, here, there in plan.positions()
        ],
    }
