"""``kfetch offsets undo``: takes back the last reset or replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import utc
from kfetch_jobs.verbs.arguments import JobName, with_project
from kfetch_jobs.verbs.moves import (
    LINES_MAX,
    AllPartitions,
    Execute,
    report,
    show_others,
    show_rest,
)
from kfetch_jobs.verbs.text import offset, table

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch_jobs.config import Job, Project
    from kfetch_jobs.offsets.undo import UndoPlan


@with_project
def undo(
    job: JobName,
    partitions: AllPartitions = False,
    execute: Execute = False,
    *,
    project: Project,
    as_json: Json = False,
) -> None:
    """Undo the last reset or replay that is not undone yet, if the job has not run since.

    kfetch restores the job's checkpoint. If a replay has deleted rows of a table, the table gets
    its version from before the replay. Every later write to it is lost.

    Stop the job first, and other jobs that write these tables. Without --execute nothing changes.
    Streaming readers of a Delta table see that its rows return.

    \b
    Example: undo a replay of one job
      kfetch offsets undo clicks --execute
    """
    from kfetch_jobs.offsets import undo as undoing
    from kfetch_jobs.offsets.execution import jobs_at_rest
    from kfetch_jobs.offsets.shared_tables import jobs_on_same_tables
    from kfetch_jobs.run.tables import unfenced

    loaded = project.job(job)
    others = jobs_on_same_tables(project, loaded) if undoing.plan_undo(loaded).backup.tables else []
    rest = jobs_at_rest(project, loaded, *others) if execute else nullcontext(unfenced)
    with rest as check:
        plan = undoing.plan_undo(loaded)
        if not as_json:
            _show_undoing(plan, partitions)
            show_others(others)
        if execute:
            undoing.undo(loaded, plan, check, report=report)
    if as_json:
        typer.echo(json.dumps(_undoing_json(plan, execute, others)))
    else:
        typer.echo("done" if execute else "nothing has changed: use --execute")


def _show_undoing(plan: UndoPlan, all_partitions: bool) -> None:
    at = utc(plan.backup.at_s)
    typer.echo(f"{plan.job}: undo the {plan.backup.verb} of {at}, from {plan.backup.path}")
    for table_version in plan.backup.tables:
        typer.echo(
            f"  kfetch restores {table_version.name} to version {table_version.version}; "
            "every later write to it is lost"
        )
    rows = [
        (f"  {tp}", offset(here), offset(there))
        for tp, here, there in plan.positions()
        if here != there
    ]
    printed = rows if all_partitions else rows[:LINES_MAX]
    if printed:
        table(("  partition", "from", "to"), printed)
    show_rest(len(rows) - len(printed))


def _undoing_json(plan: UndoPlan, executed: bool, others: Sequence[Job]) -> dict[str, Any]:
    return {
        "job": plan.job,
        "undoes": plan.backup.verb,
        "backup": str(plan.backup.path),
        "executed": executed,
        "tables": {restored.name: restored.version for restored in plan.backup.tables},
        "shared_with": [other.name for other in others],
        "partitions": [
            tp._asdict() | {"from": here, "to": there} for tp, here, there in plan.positions()
        ],
    }
