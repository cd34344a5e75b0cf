"""``kfetch offsets undo``: takes back the last reset or replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.times import utc
from kfetch_jobs.verbs.arguments import Environment, JobName, ProjectPath, project_of
from kfetch_jobs.verbs.moves import (
    LINES_MAX,
    AllPartitions,
    Execute,
    MarginPercent,
    report,
    show_others,
    show_rest,
)
from kfetch_jobs.verbs.text import offset, table

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch_jobs.config import Job
    from kfetch_jobs.offsets.undo import UndoPlan


def add(app: typer.Typer) -> None:
    """Mount the verb."""
    app.command(short_help="Undo the last reset or replay.")(undo)


def undo(
    job: JobName,
    margin: MarginPercent = 1,
    partitions: AllPartitions = False,
    execute: Execute = False,
    project: ProjectPath = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Undo the last reset or replay that is not undone yet.

    If the job has not run since the move, kfetch restores its checkpoint. Otherwise the job
    continues at the offsets from before the move.

    \b
    What happens to the tables:
    - A replay has deleted rows: the table gets its version from before the replay.
      Every later write to it is lost.
    - A replay has deleted nothing: kfetch deletes the rows that the job wrote since then.
    - After a reset: the table keeps its rows.

    Stop the job first, and other jobs that write these tables. Without --execute nothing changes.

    If the job has run since a replay, it reads records again from Kafka. kfetch refuses if
    retention has deleted such records, or may do so soon (--margin). Streaming readers of a Delta
    table see that rows are deleted.

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
            show_others(others)
        if execute:
            undoing.undo(loaded_project, loaded, plan, margin_percent=margin, report=report)
    if as_json:
        typer.echo(json.dumps(_undoing_json(plan, execute, others)))
    else:
        typer.echo("done" if execute else "nothing has changed: use --execute")


def _show_undoing(plan: UndoPlan, all_partitions: bool) -> None:
    at = utc(plan.backup.at_s)
    typer.echo(f"{plan.job}: undo the {plan.backup.verb} of {at}, from {plan.backup.path}")
    if not plan.exact:
        typer.echo("  the job has run since: it goes on at the offsets from before the move")
    for table_version in plan.backup.tables:
        typer.echo(
            f"  kfetch restores {table_version.name} to version {table_version.version}; "
            "every later write to it is lost"
        )
    for tp in plan.new_partitions[: None if all_partitions else LINES_MAX]:
        typer.echo(f"  {tp} is new since then: its offset stays")
    rows = [(f"  {tp}", offset(here), offset(there)) for tp, here, there in _changed(plan)]
    printed = rows if all_partitions else rows[:LINES_MAX]
    if printed:
        table(("  partition", "from", "to"), printed)
    show_rest(len(rows) - len(printed))


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
