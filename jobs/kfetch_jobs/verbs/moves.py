"""``kfetch offsets reset``, ``replay`` and ``undo``: a job goes on elsewhere in its topics."""

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
    from kfetch_jobs.offsets.act import Done
    from kfetch_jobs.offsets.back import Undoing
    from kfetch_jobs.offsets.moves import Move, Verb
    from kfetch_jobs.offsets.plan import Plan
    from kfetch_jobs.offsets.target import Target

__all__ = ["add"]

_LINES_MAX = 20
"""So many partitions are told one by one; with ``--partitions`` all."""

Earliest = Annotated[bool, typer.Option("--to-earliest", help="To the start of the log.")]
Latest = Annotated[bool, typer.Option("--to-latest", help="To its end.")]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="To the first record at a time (ISO 8601; without a zone this machine's) or later.",
    ),
]
Ago = Annotated[str | None, typer.Option(metavar="DURATION", help="The same, so long ago: 2h.")]
Shift = Annotated[
    int | None, typer.Option(metavar="N", help="So many offsets further; back, if negative.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help='To a file\'s: offsets show --json, or {"clicks": {"0": 12}}.'
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:0,1]", help="This topic alone, or some of its partitions."
    ),
]
Every = Annotated[bool, typer.Option("--partitions", help="Show each partition, however many.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else the plan is shown.")]


def add(app: typer.Typer) -> None:
    """Mount the verbs."""
    app.command(short_help="Let a job go on elsewhere; its table is left alone.")(reset)
    app.command(short_help="Let rows come again; the table has each once.")(replay)
    app.command(short_help="Put back what was before the last reset or replay.")(undo)


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
        typer.Option(help="Take a micro-batch that was planned and has no commit for not written."),
    ] = False,
    partitions: Every = False,
    execute: Execute = False,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Let a job go on elsewhere in its topics, back or ahead. Its table is left alone.

    What was read before comes again, and an append table has it twice then: replay takes care of
    that. What is skipped is never read. The plan tells how many offsets either is, per partition;
    nothing is changed without --execute. The job must not run, nor its supervisor be about to start
    it. The checkpoint is copied first: offsets undo.

    \b
    Example: past records that nobody wants any more
      kfetch pause clicks
      kfetch offsets reset clicks --to-latest
      kfetch offsets reset clicks --to-latest --execute && kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, to_latest, to_datetime, by_duration, shift_by, from_file)
    asked = _Asked(job, Verb.RESET, target, topic or [], execute, give_up_batch=give_up_batch)
    _move(asked, project, environment, partitions, as_json)


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
            help="A record may have several rows: delete more than there are offsets.",
        ),
    ] = False,
    partitions: Every = False,
    execute: Execute = False,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Let rows come again from a point on, so that the table has each of them once.

    Partitions only go back. From an append table, and from the dead letters, the rows of these
    offsets are deleted first: they are found by the columns partition and offset, and topic where
    there are several, which the transform must keep. Other jobs that write the same table must
    rest, and none of them read the same topic. A merge replaces its rows by itself. With
    --execute Spark is started for that; else the plan is shown. What Kafka has no longer
    (retention, compaction) does not come again. The checkpoint is copied first: offsets undo.

    \b
    Example: after a mistake in the transform was mended
      kfetch pause clicks
      kfetch offsets replay clicks --to-datetime 2026-11-21T18:30 --execute
      kfetch resume clicks
    """
    from kfetch_jobs.offsets.moves import Verb

    target = _target(to_earliest, False, to_datetime, by_duration, shift_by, from_file)
    asked = _Asked(job, Verb.REPLAY, target, topic or [], execute, several_rows=several_rows)
    _move(asked, project, environment, partitions, as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for."""

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

    given: list[Target] = []
    given += [target.Earliest()] if earliest else []
    given += [target.Latest()] if latest else []
    given += [targets.of_time(at)] if at is not None else []
    given += [targets.of_duration(ago, time.time())] if ago is not None else []
    given += [target.Shifted(shift)] if shift is not None else []
    given += [targets.of_file(file)] if file is not None else []
    if len(given) != 1:
        raise ConfigError(
            f"say where to, once, not {len(given)} times: --to-earliest, --to-latest (reset "
            "alone), --to-datetime, --by-duration, --shift-by or --from-file"
        )
    return given[0]


def _move(
    asked: _Asked, project: Path | None, environment: str | None, every: bool, as_json: bool
) -> None:
    from kfetch_jobs.offsets.act import at_rest, execute
    from kfetch_jobs.offsets.moves import Choice, Verb
    from kfetch_jobs.offsets.neighbours import neighbours
    from kfetch_jobs.offsets.plan import planned

    found = project_of(project, environment)
    job = found.job(asked.job)
    choices = [Choice.of(text) for text in asked.topics]
    done: Done | None = None
    others = neighbours(found, job) if asked.verb is Verb.REPLAY else []
    with at_rest(found, job, *others) if asked.execute else nullcontext():
        plan = planned(job, asked.verb, asked.target, choices)
        if not as_json:
            _show(plan, every)
            _show_others(others)
        if asked.execute:
            done = execute(
                found,
                job,
                plan,
                give_up_batch=asked.give_up_batch,
                several_rows=asked.several_rows,
            )
    if as_json:
        typer.echo(json.dumps(_json(plan, done, others)))
    elif done is None:
        typer.echo("nothing was changed: --execute does it, while the job is paused or stopped")
    else:
        _show_done(plan, done)


def _show(plan: Plan, every: bool) -> None:
    from kfetch_jobs.offsets.moves import Verb

    typer.echo(f"{plan.job}: {plan.verb} to {plan.target}")
    if plan.checkpoint.pending and plan.checkpoint.planned:
        number = plan.checkpoint.planned.number
        typer.echo(f"  micro-batch {number} was planned and is not done: it is given up")
    for tp in plan.dropped:
        typer.echo(f"  {tp} no longer exists: the checkpoint forgets it")
    moving = [each for each in plan.moves if each.moves]
    _table(moving if every else sorted(moving, key=_size)[:_LINES_MAX])
    _show_rest(0 if every else len(moving) - _LINES_MAX)
    typer.echo(
        f"{len(moving):,} of {len(plan.moves):,} partitions move: {plan.again:,} offsets come "
        f"again, {plan.skipped:,} are skipped"
    )
    for name in plan.tables:
        if plan.verb is Verb.REPLAY:
            typer.echo(f"rows of what is read behind the move are deleted from {name} first")
        elif plan.again:
            typer.echo(f"{name} will have what comes again twice: kfetch offsets replay deletes it")


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
            f"  {each.tp}",
            offset(each.before),
            offset(each.after),
            f"{each.again:,}",
            f"{each.skipped:,}",
            each.limit,
        )
        for each in sorted(moves, key=lambda each: each.tp)
    ]
    if rows:
        table(("  partition", "from", "to", "again", "skipped", ""), rows)


def _show_done(plan: Plan, done: Done) -> None:
    for name, rows in done.deleted.items():
        typer.echo(f"deleted {counted(rows, 'row')} from {name}")
    typer.echo(
        f"done, as micro-batch {done.batch}; a copy of the checkpoint is {done.backup.path}; back: "
        f"kfetch offsets undo {plan.job} --execute"
    )


def _json(plan: Plan, done: Done | None, others: Sequence[Job]) -> dict[str, Any]:
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
                "topic": each.tp.topic,
                "partition": each.tp.partition,
                "from": each.before,
                "to": each.after,
                "again": each.again,
                "skipped": each.skipped,
            }
            for each in plan.moves
        ],
    }


def undo(
    job: JobName,
    partitions: Every = False,
    execute: Execute = False,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Put back what was before the last reset or replay that was not undone.

    If the job has not run since, its checkpoint becomes what it was. Else it goes on where it stood
    then. Tables from which a replay has deleted rows go back to their versions of then, and from
    its others the job's rows since then are deleted; after a reset they keep them. Other jobs that
    write these tables must rest. Nothing is changed without --execute.

    \b
    Example:
      kfetch offsets undo clicks --execute
    """
    from kfetch_jobs.offsets import back
    from kfetch_jobs.offsets.act import at_rest
    from kfetch_jobs.offsets.neighbours import neighbours

    found = project_of(project, environment)
    the_job = found.job(job)
    others = neighbours(found, the_job) if back.undoing(the_job).rewrites else []
    with at_rest(found, the_job, *others) if execute else nullcontext():
        plan = back.undoing(the_job)
        if not as_json:
            _show_undoing(plan, partitions)
            _show_others(others)
        if execute:
            back.undo(found, the_job, plan)
    if as_json:
        typer.echo(json.dumps(_undoing_json(plan, execute, others)))
    else:
        typer.echo("done" if execute else "nothing was changed: --execute does it")


def _show_undoing(plan: Undoing, every: bool) -> None:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(plan.backup.at_s))
    typer.echo(f"{plan.job}: undo the {plan.backup.verb} of {at}, from {plan.backup.path}")
    if not plan.exact:
        typer.echo("  the job has run since: it goes on where it stood then")
    for each in plan.backup.tables:
        typer.echo(f"  {each.name} goes back to version {each.version}; what came later is gone")
    for tp in plan.kept[: None if every else _LINES_MAX]:
        typer.echo(f"  {tp} has come since: it stays where it is")
    rows = [(f"  {tp}", offset(here), offset(there)) for tp, here, there in _changed(plan)]
    shown = rows if every else rows[:_LINES_MAX]
    if shown:
        table(("  partition", "from", "to"), shown)
    _show_rest(len(rows) - len(shown))


def _changed(plan: Undoing) -> list[tuple[Any, int | None, int]]:
    return [each for each in plan.positions() if each[1] != each[2]]


def _undoing_json(plan: Undoing, executed: bool, others: Sequence[Job]) -> dict[str, Any]:
    return {
        "job": plan.job,
        "undoes": plan.backup.verb,
        "backup": str(plan.backup.path),
        "executed": executed,
        "exact": plan.exact,
        "tables": {each.name: each.version for each in plan.backup.tables},
        "shared_with": [other.name for other in others],
        "kept": [{"topic": tp.topic, "partition": tp.partition} for tp in plan.kept],
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "from": here, "to": there}
            for tp, here, there in plan.positions()
        ],
    }
