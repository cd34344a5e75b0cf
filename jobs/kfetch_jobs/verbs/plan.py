"""``kfetch plan`` and ``lag``: compare checkpoints with Kafka's logs. They change nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import counted, duration
from kfetch_jobs.verbs.arguments import JobName, with_project
from kfetch_jobs.verbs.text import number, offset, table, warn

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch.admin.checkpoint import Checkpoint
    from kfetch.admin.sources import Partition
    from kfetch_jobs.config import Job, Project
    from kfetch_jobs.offsets.job_report import JobReport, SourceReport

_LINES_MAX = 20
"""The number of partitions or losses in a list. ``kfetch plan --json`` has all of them."""


@with_project
def plan(job: JobName, *, project: Project, as_json: Json = False) -> None:
    """Show what a run of the job would read, from which offsets, and whether Kafka has them.

    The command asks Kafka for topics, partitions and log ends. It shows where the run would start,
    and whether the checkpoint still fits the topics. It starts neither Spark nor the job, and
    changes nothing.

    \b
    It exits with 1 in these cases:
    - A run would fail.
    - A topic of the job does not exist, or its pattern matches none.
    - A partition has no leader.
    - ACLs do not let the job read a topic.

    \b
    Example: check a job before its first run
      kfetch plan clicks
    """
    from kfetch_jobs.checkpoints.location import lease_file
    from kfetch_jobs.config.source_options import option_warnings
    from kfetch_jobs.offsets import job_report

    loaded = project.job(job)
    lease_file(loaded)
    report = job_report.report(loaded, time.time())
    way = WriteWay.of(loaded)
    schema = way.columns or _schema(loaded, report.sources[0])
    if as_json:
        typer.echo(json.dumps(_plan_json(loaded, report, schema, way)))
    else:
        warn(option_warnings(loaded))
        _show_plan(loaded, report, schema, way)
    wrong = report.missing or report.leaderless or report.unreadable or way.refusal
    raise typer.Exit(0 if report.fits and not wrong else 1)


def _schema(job: Job, source: SourceReport) -> str | None:
    """Returns the columns for the sink; None for a transform, whose columns only Spark knows."""
    if job.file.transform is not None:
        return None
    from kfetch.admin.sources import columns as columns_of

    # The dead letters have a table of their own.
    left_out = {"deadLetter"} if job.dead_letters else set[str]()
    kinds = {n: kind for n, kind in columns_of(source.options).items() if n not in left_out}
    decode = job.file.views()[source.view].decode
    if decode and decode.into != "value":
        kinds[decode.into] = kinds.pop("value")
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


class WriteWay(NamedTuple):
    """How a run writes the rows. If tasks write the table's files, kfetch knows its columns."""

    clause: str = ""
    """What sends the rows through Spark."""
    refusal: str = ""
    """Why the run would fail."""
    columns: str = ""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Returns the way of a job, without Spark. It looks at the table, too."""
        from pyspark.sql.types import StructType

        from kfetch_jobs.errors import ConfigError
        from kfetch_jobs.run.straight import way

        try:
            found = way(job, job.spark, job.spark.get("spark.sql.session.timeZone", "UTC"))
        except ConfigError as error:
            return cls(refusal=error.message)
        if isinstance(found, str):
            return cls(clause=found)
        fields = StructType.fromJson({"fields": found.fields})
        return cls(columns=", ".join(f"{one.name} {one.dataType.simpleString()}" for one in fields))

    def __str__(self) -> str:
        if self.refusal:
            return f"FAILS: {self.refusal}"
        if self.clause:
            return f"written through Spark ({self.clause})"
        return "written straight: tasks write the table's files"


def _show_plan(job: Job, report: JobReport, schema: str | None, way: WriteWay) -> None:
    typer.echo(f"{job.name}: {job.file.trigger}, into {job.target}")
    typer.echo(f"checkpoint: {_progress_of(report.checkpoint)}")
    typer.echo(f"columns: {schema or 'the transform makes them; only Spark knows them'}")
    typer.echo(str(way))
    if report.refusal:
        typer.echo(f"FAILS: {report.refusal}")
    for source in report.sources:
        _show_source(job.name, source)
    typer.echo(f"a run would read {counted(report.behind, 'offset')} now{_limit(report)}")


def _progress_of(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None or checkpoint.planned is None:
        return f"none yet in {checkpoint.path}" if checkpoint else "none"
    last = checkpoint.planned.number
    if checkpoint.pending:
        return f"micro-batch {last} is planned and not committed: it runs again first"
    return f"the next run continues after micro-batch {last}"


def _limit(report: JobReport) -> str:
    limits = [source.options.planning.max_offsets for source in report.sources]
    texts = [f"{limit:,}" for limit in limits if limit is not None]
    return f", at most {' and '.join(texts)} in a micro-batch" if texts else ""


def _show_source(job: str, source: SourceReport) -> None:
    servers = ",".join(f"{host}:{port}" for host, port in source.options.bootstrap)
    kafka = source.kafka
    start = "continues from its checkpoint" if source.start else _starting(source)
    typer.echo(
        f"{source.view}: {counted(len(kafka.partitions), 'partition')} at {servers}, {start}"
    )
    mark = "gone" if source.fits else "FAILS"
    if kafka.missing:
        typer.echo(f"  {'missing' if source.fits else mark}: {kafka.missing}")
    _print_some([f"  {mark}: {loss}" for loss in kafka.losses])
    _print_some([f"  FAILS: {sentence}" for sentence in kafka.unreadable])
    waits = "has no leader: start its brokers, or wait for an election"
    _print_some([f"  FAILS: {tp} {waits}" for tp in kafka.leaderless])
    rows = [_partition_row(partition) for partition in _furthest(kafka.partitions)]
    table(("partition", "leader", "log", "from", "offsets", ""), rows)
    if left := len(kafka.partitions) - len(rows):
        typer.echo(f"  and {left:,} more: kfetch lag {job} --partitions shows all")


def _print_some(lines: list[str]) -> None:
    more = [f"  and {len(lines) - _LINES_MAX:,} more"] if len(lines) > _LINES_MAX else []
    for line in lines[:_LINES_MAX] + more:
        typer.echo(line)


def _furthest(partitions: Sequence[Partition]) -> Sequence[Partition]:
    """Returns all partitions in order, or those of many that have most to read."""
    if len(partitions) <= _LINES_MAX:
        return partitions
    return sorted(partitions, key=lambda partition: -(partition.behind or 0))[:_LINES_MAX]


def _starting(source: SourceReport) -> str:
    starting = source.options.starting
    return f"starts at {starting.option} ({starting.summary})"


def _partition_row(partition: Partition) -> tuple[str, ...]:
    return (
        str(partition.tp),
        "none" if partition.leader is None else str(partition.leader),
        f"{offset(partition.log_start)} to {offset(partition.log_end)}",
        offset(partition.position),
        number(partition.behind),
        "gone" if partition.lost else "new" if partition.new else "",
    )


def _plan_json(job: Job, report: JobReport, schema: str | None, way: WriteWay) -> dict[str, Any]:
    from kfetch_jobs.config.source_options import option_warnings

    return _job_json(report) | {
        "target": str(job.target),
        "trigger": str(job.file.trigger),
        "columns": schema,
        "through_spark": way.clause or None,
        "write_refusal": way.refusal or None,
        "warnings": option_warnings(job),
        "sources": [_source_json(source) for source in report.sources],
    }


def _job_json(report: JobReport) -> dict[str, Any]:
    checkpoint = report.checkpoint
    planned = checkpoint.planned if checkpoint else None
    return {
        "job": report.name,
        "error": report.error or None,
        "checkpoint": str(checkpoint.path) if checkpoint else None,
        "planned": planned.number if planned else None,
        "committed": checkpoint.committed if checkpoint else None,
        "fits": report.fits,
        "refusal": report.refusal or None,
        "missing": report.missing,
        "losses": report.losses,
        "leaderless": report.leaderless,
        "unreadable": report.unreadable,
        "behind": report.behind if report.sources else None,
        "behind_s": report.waiting_s,
    }


def _source_json(source: SourceReport) -> dict[str, Any]:
    return {
        "view": source.view,
        "servers": [f"{host}:{port}" for host, port in source.options.bootstrap],
        "goes_on": source.start is not None,
        "fail_on_data_loss": source.options.fail_on_data_loss,
        "losses": list(source.kafka.losses),
        "topics": {name: topic_id.hex for name, topic_id in source.kafka.topic_ids.items()},
        "partitions": [_partition_json(partition) for partition in source.kafka.partitions],
    }


def _partition_json(partition: Partition) -> dict[str, Any]:
    values = asdict(partition) | {"behind": partition.behind}
    return partition.tp._asdict() | {name: values[name] for name in values if name != "tp"}


@with_project
def lag(
    job: Annotated[
        str | None, typer.Argument(help="The name of the job. Default: all jobs.")
    ] = None,
    *,
    project: Project,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show each partition.")] = False,
    as_json: Json = False,
) -> None:
    """Show how far jobs are behind: from the offsets in their checkpoints to Kafka's log ends.

    The command asks the brokers, so a job need not run. The seconds are a lower bound: the next
    offset has waited at least so long. They come from the job's last progress. The lag of a new job
    is what its first run would read.

    \b
    The command exits with 1 in these cases:
    - It cannot read a job's checkpoint or topics.
    - ACLs do not let the job read a topic.
    - Records that a job has not read are gone.

    \b
    Example: print the partitions of one job that are furthest behind
      kfetch lag clicks --partitions --json | jq '.[].partitions | sort_by(-.behind)[:5]'
    """
    from kfetch_jobs.offsets import job_report

    names = [job] if job is not None else project.jobs()
    if job is not None:
        project.job(job)  # raises ConfigError, exit code 2, for a mistake in its file
    reports = list(job_report.reports(project, names, time.time()))
    if as_json:
        typer.echo(json.dumps([_lag_json(report, partitions) for report in reports]))
    elif partitions:
        _show_partitions(reports)
    else:
        _show_lag(reports)
    raise typer.Exit(1 if any(map(_has_problem, reports)) else 0)


def _has_problem(report: JobReport) -> bool:
    return bool(report.error or report.missing or report.unreadable or report.losses)


def _lag_json(report: JobReport, partitions: bool) -> dict[str, Any]:
    value = _job_json(report)
    if partitions:
        value["partitions"] = [
            {"view": source.view} | _partition_json(partition)
            for source in report.sources
            for partition in source.kafka.partitions
        ]
    return value


def _show_lag(reports: list[JobReport]) -> None:
    rows = [
        (
            report.name,
            number(report.checkpoint.committed) if report.checkpoint else "",
            number(sum(len(source.kafka.partitions) for source in report.sources) or None),
            number(report.behind) if report.sources else "",
            duration(report.waiting_s) if report.waiting_s else "",
            "; ".join(_about(report)),
        )
        for report in reports
    ]
    table(("job", "batch", "partitions", "behind", "waiting", "about"), rows)


def _about(report: JobReport) -> Iterator[str]:
    if report.error:
        yield report.error
    elif not report.has_run:
        yield "has not run yet"
    yield from report.missing
    yield from report.unreadable
    if lost := len(report.losses):
        yield f"records are gone in {counted(lost, 'place')}: see kfetch plan {report.name}"
    if leaderless := report.leaderless:
        partitions = counted(len(leaderless), "partition has", "partitions have")
        yield f"{partitions} no leader, {leaderless[0]} first"


def _show_partitions(reports: list[JobReport]) -> None:
    rows = [
        (
            report.name,
            str(partition.tp),
            offset(partition.position),
            offset(partition.log_end),
            number(partition.behind),
        )
        for report in reports
        for source in report.sources
        for partition in source.kafka.partitions
    ]
    table(("job", "partition", "position", "log end", "behind"), rows)
    for report in reports:
        for sentence in _about(report):
            typer.echo(f"{report.name}: {sentence}")
