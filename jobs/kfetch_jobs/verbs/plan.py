"""``kfetch plan`` and ``lag``: where jobs stand in Kafka. They change nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kfetch_jobs.util.plural import counted
from kfetch_jobs.verbs.arguments import Environment, JobName, Json, ProjectFile, project_of
from kfetch_jobs.verbs.text import duration, number, offset, table, warn

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.checkpoints.files import Checkpoint
    from kfetch_jobs.config import Job
    from kfetch_jobs.looks.job import JobReport, SourceReport
    from kfetch_jobs.looks.source import Partition

__all__ = ["add"]

_LINES_MAX = 20
"""So many partitions, or losses, are told one by one; ``kfetch plan --json`` tells all."""


def add(app: typer.Typer) -> None:
    """Mount the verbs."""
    app.command(short_help="What a job would read now, and whether it can.")(plan)
    app.command(short_help="How far jobs are behind, by Kafka's word.")(lag)


def plan(
    job: JobName,
    project: ProjectFile = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Ask Kafka what a run of a job would read: from where, how much, and whether that is there.

    Its topics, partitions, log ends; where it begins, or goes on by its checkpoint; whether the
    checkpoint still fits the topics (ids, log starts, leader epochs). Neither Spark nor the job is
    started, and nothing is changed. Exits with 1 if a run would fail, a topic that the job names
    does not exist, or a partition has no leader.

    \b
    Example: before a job's first run
      kfetch plan clicks
    """
    from kfetch_jobs.looks import job as looks

    found = project_of(project, environment).job(job)
    stands = looks.report(found, time.time())
    schema = _schema(found, stands.sources[0])
    if as_json:
        typer.echo(json.dumps(_plan_json(found, stands, schema)))
    else:
        warn(found.warnings())
        _show_plan(found, stands, schema)
    raise typer.Exit(0 if stands.fits and not stands.missing and not stands.leaderless else 1)


def _schema(job: Job, source: SourceReport) -> str | None:
    """The columns that go to the sink; None where Spark alone knows what the transform makes."""
    if job.file.transform is not None:
        return None
    from kfetch.source import schema

    columns = ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in schema(source.options)
    )
    decode = job.file.views()[source.view].decode
    return f"{columns}, {decode.into} struct<{decode.fields}>" if decode else columns


def _show_plan(job: Job, stands: JobReport, schema: str | None) -> None:
    typer.echo(f"{job.name}: {job.file.trigger}, into {job.target}")
    typer.echo(f"checkpoint: {_progress_of(stands.checkpoint)}")
    typer.echo(f"columns: {schema or 'the transform makes them, and Spark alone can tell'}")
    for source in stands.sources:
        _show_source(job.name, source)
    typer.echo(f"a run would read {counted(stands.behind, 'offset')} now{_limit(stands)}")


def _progress_of(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None or checkpoint.planned is None:
        return f"none yet in {checkpoint.path}" if checkpoint else "none"
    last = checkpoint.planned.number
    if checkpoint.pending:
        return f"micro-batch {last} was planned and is not done: it comes again first"
    return f"goes on behind micro-batch {last}"


def _limit(stands: JobReport) -> str:
    limits = [source.options.max_offsets_per_trigger for source in stands.sources]
    told = [f"{limit:,}" for limit in limits if limit is not None]
    return f", at most {' and '.join(told)} in a micro-batch" if told else ""


def _show_source(job: str, source: SourceReport) -> None:
    servers = ",".join(f"{host}:{port}" for host, port in source.options.bootstrap)
    kafka = source.kafka
    since = "goes on from its checkpoint" if source.has_checkpoint else _beginning(source)
    typer.echo(
        f"{source.view}: {counted(len(kafka.partitions), 'partition')} at {servers}, {since}"
    )
    mark = "gone" if source.fits else "FAILS"
    if kafka.missing:
        typer.echo(f"  {'missing' if source.fits else mark}: {kafka.missing}")
    _tell([f"  {mark}: {loss}" for loss in kafka.losses])
    waits = "has no leader: start its brokers, or wait for an election"
    _tell([f"  FAILS: {tp} {waits}" for tp in kafka.leaderless])
    rows = [_partition_row(each) for each in _furthest(kafka.partitions)]
    table(("partition", "leader", "log", "from", "offsets", ""), rows)
    if left := len(kafka.partitions) - len(rows):
        typer.echo(f"  and {left:,} more: kfetch lag {job} --partitions shows all")


def _tell(lines: list[str]) -> None:
    more = [f"  and {len(lines) - _LINES_MAX:,} more"] if len(lines) > _LINES_MAX else []
    for line in lines[:_LINES_MAX] + more:
        typer.echo(line)


def _furthest(partitions: Sequence[Partition]) -> Sequence[Partition]:
    """All, in order; of many, those with most to read."""
    if len(partitions) <= _LINES_MAX:
        return partitions
    return sorted(partitions, key=lambda each: -(each.behind or 0))[:_LINES_MAX]


def _beginning(source: SourceReport) -> str:
    starting = source.options.starting
    named = {-1: "latest", -2: "earliest"}
    how = "its own" if starting.specific is not None else named.get(starting.default, "")
    return f"begins at startingOffsets ({how})"


def _partition_row(each: Partition) -> tuple[str, ...]:
    return (
        str(each.tp),
        "none" if each.leader is None else str(each.leader),
        f"{offset(each.log_start)} to {offset(each.log_end)}",
        offset(each.position),
        number(each.behind),
        "gone" if each.lost else "new" if each.new else "",
    )


def _plan_json(job: Job, stands: JobReport, schema: str | None) -> dict[str, Any]:
    return _job_json(stands) | {
        "target": str(job.target),
        "trigger": str(job.file.trigger),
        "columns": schema,
        "warnings": job.warnings(),
        "sources": [_source_json(source) for source in stands.sources],
    }


def _job_json(stands: JobReport) -> dict[str, Any]:
    checkpoint = stands.checkpoint
    planned = checkpoint.planned if checkpoint else None
    return {
        "job": stands.name,
        "error": stands.error or None,
        "checkpoint": str(checkpoint.path) if checkpoint else None,
        "planned": planned.number if planned else None,
        "committed": checkpoint.committed if checkpoint else None,
        "fits": stands.fits,
        "missing": stands.missing,
        "losses": stands.losses,
        "leaderless": stands.leaderless,
        "behind": stands.behind if stands.sources else None,
        "behind_s": stands.waiting_s,
    }


def _source_json(source: SourceReport) -> dict[str, Any]:
    return {
        "view": source.view,
        "servers": [f"{host}:{port}" for host, port in source.options.bootstrap],
        "goes_on": source.has_checkpoint,
        "fail_on_data_loss": source.options.fail_on_data_loss,
        "losses": list(source.kafka.losses),
        "topics": {name: topic_id.hex for name, topic_id in source.kafka.topic_ids.items()},
        "partitions": [_partition_json(each) for each in source.kafka.partitions],
    }


def _partition_json(each: Partition) -> dict[str, Any]:
    return {
        "topic": each.tp.topic,
        "partition": each.tp.partition,
        "leader": each.leader,
        "log_start": each.log_start,
        "log_end": each.log_end,
        "position": each.position,
        "behind": each.behind,
        "new": each.new,
        "lost": each.lost,
    }


def lag(
    job: Annotated[str | None, typer.Argument(help="The job; else all.")] = None,
    project: ProjectFile = None,
    environment: Environment = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Each partition by itself.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell how far jobs are behind: from the offsets of their checkpoints to Kafka's log ends.

    Brokers are asked, so it tells of jobs that don't run, too. The seconds are what a job's last
    progress proves: the next offset has been waiting for so long at least. A job that has not
    run yet is behind by what its first run would read. Exits with 1 if a job can't be looked at,
    or a topic that it names does not exist.

    \b
    Example: the partitions of one job that are furthest behind
      kfetch lag clicks --partitions --json | jq '.[].partitions | sort_by(-.behind)[:5]'
    """
    from kfetch_jobs.looks import job as looks

    found = project_of(project, environment)
    names = [job] if job is not None else found.jobs()
    if job is not None:
        found.job(job)  # a mistake in its file is the user's to mend: exit code 2
    stand = list(looks.reports(found, names, time.time()))
    if as_json:
        typer.echo(json.dumps([_lag_json(each, partitions) for each in stand]))
    elif partitions:
        _show_partitions(stand)
    else:
        _show_lag(stand)
    raise typer.Exit(1 if any(each.error or each.missing for each in stand) else 0)


def _lag_json(stands: JobReport, partitions: bool) -> dict[str, Any]:
    told = _job_json(stands)
    if partitions:
        told["partitions"] = [
            {"view": source.view} | _partition_json(each)
            for source in stands.sources
            for each in source.kafka.partitions
        ]
    return told


def _show_lag(stand: list[JobReport]) -> None:
    rows = [
        (
            each.name,
            number(each.checkpoint.committed) if each.checkpoint else "",
            number(sum(len(source.kafka.partitions) for source in each.sources) or None),
            number(each.behind) if each.sources else "",
            duration(each.waiting_s) if each.waiting_s else "",
            "; ".join(_about(each)),
        )
        for each in stand
    ]
    table(("job", "batch", "partitions", "behind", "waiting", "about"), rows)


def _about(stands: JobReport) -> Iterator[str]:
    if stands.error:
        yield stands.error
    elif not stands.has_run:
        yield "has not run yet"
    yield from stands.missing
    if lost := len(stands.losses):
        yield f"records are gone in {counted(lost, 'place')}: kfetch plan {stands.name} tells"
    if leaderless := stands.leaderless:
        told = counted(len(leaderless), "partition has", "partitions have")
        yield f"{told} no leader, {leaderless[0]} first"


def _show_partitions(stand: list[JobReport]) -> None:
    rows = [
        (
            stands.name,
            str(each.tp),
            offset(each.position),
            offset(each.log_end),
            number(each.behind),
        )
        for stands in stand
        for source in stands.sources
        for each in source.kafka.partitions
    ]
    table(("job", "partition", "position", "log end", "behind"), rows)
    for stands in stand:
        for sentence in _about(stands):
            typer.echo(f"{stands.name}: {sentence}")
