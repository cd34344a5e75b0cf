"""``kfetch offsets show``: the offsets in a job's checkpoint. ``moves.py`` changes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import utc
from kfetch_jobs.verbs import moves, undo
from kfetch_jobs.verbs.arguments import JobName, with_project
from kfetch_jobs.verbs.text import offset, table

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch.admin.checkpoint import Checkpoint
    from kfetch_jobs.config import Project

_ABOUT = """Show or move the offsets in a job's checkpoint.

\b
Example: read the last two hours again, after a look at the plan
  kfetch pause clicks
  kfetch offsets replay clicks --by-duration 2h
  kfetch offsets replay clicks --by-duration 2h --execute
  kfetch resume clicks
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=_ABOUT,
)


@app.command(short_help="Print the micro-batches and offsets of the checkpoint.")
@with_project
def show(job: JobName, *, project: Project, as_json: Json = False) -> None:
    """Print a job's checkpoint: micro-batches, offsets, leader epochs, topic ids.

    The command reads Spark's files only. It needs no Kafka, and the job may run meanwhile. Each
    offset is the next one that the job reads.

    \b
    Example: print the next offsets of a job, for a script
      kfetch offsets show clicks --json | jq '.sources[].partitions'
    """
    from kfetch_jobs.checkpoints.checkpoint import job_checkpoint

    checkpoint = job_checkpoint(project.job(job), quick=True)
    if as_json:
        typer.echo(json.dumps(_checkpoint_json(job, checkpoint)))
    else:
        _show_checkpoint(job, checkpoint)


def _show_checkpoint(job: str, checkpoint: Checkpoint) -> None:
    typer.echo(f"{job}: {checkpoint.path}, query {checkpoint.query or 'without an id yet'}")
    if checkpoint.planned is None:
        typer.echo("Spark has planned no micro-batch yet")
        return
    when = checkpoint.planned.planned_s
    at = f" at {utc(when)}" if when else ""
    committed = "none" if checkpoint.committed is None else str(checkpoint.committed)
    typer.echo(f"last planned: {checkpoint.planned.number}{at}; last committed: {committed}")
    for source in _checkpoint_json(job, checkpoint)["sources"]:
        ids = [f"{name} (id {id_ or 'unknown'})" for name, id_ in source["topics"].items()]
        typer.echo(f"source {source['source']}: {', '.join(ids) or 'no offset yet'}")
        rows = [
            (
                f"{row['topic']}-{row['partition']}",
                offset(row["committed"]),
                offset(row["planned"]),
                offset(row["leader_epoch"]),
            )
            for row in source["partitions"]
        ]
        table(("partition", "committed", "planned", "leader epoch"), rows)


def _checkpoint_json(job: str, checkpoint: Checkpoint) -> dict[str, Any]:
    planned = checkpoint.planned
    return {
        "job": job,
        "checkpoint": str(checkpoint.path),
        "query": checkpoint.query or None,
        "planned": planned.number if planned else None,
        "planned_s": planned.planned_s if planned else None,
        "committed": checkpoint.committed,
        "sources": [_source_json(checkpoint, n) for n in range(checkpoint.sources)],
    }


def _source_json(checkpoint: Checkpoint, index: int) -> dict[str, Any]:
    start, end = checkpoint.start(index), checkpoint.end(index)
    ends = end.positions if end else {}
    starts = start.positions if start else {}
    ids = end.topic_ids if end else {}
    names = sorted({tp.topic for tp in ends})
    return {
        "source": index,
        "topics": {name: ids[name].hex if name in ids else None for name in names},
        "partitions": [
            tp._asdict()
            | {
                "committed": starts[tp].offset if tp in starts else None,
                "planned": position.offset,
                "leader_epoch": position.leader_epoch if position.leader_epoch >= 0 else None,
            }
            for tp, position in sorted(ends.items())
        ],
    }


app.command(short_help="Move a job's offsets, and leave its table alone.")(moves.reset)
app.command(short_help="Read records again, each row once.")(moves.replay)
app.command(short_help="Undo the last reset or replay.")(undo.undo)
