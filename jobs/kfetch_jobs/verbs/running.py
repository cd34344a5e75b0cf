"""``kfetch run``: runs one job in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import counted
from kfetch_jobs.verbs.arguments import Environment, JobName, ProjectPath, project_of

if TYPE_CHECKING:  # late in the verb: `kfetch --help` needs none of it
    from kfetch_jobs.config import Job
    from kfetch_jobs.progress.batch import Batch
    from kfetch_jobs.progress.term_file import TermFile
    from kfetch_jobs.run import RunResult


def run(
    job: JobName,
    project: ProjectPath = None,
    environment: Environment = None,
    as_json: Json = False,
    ending: Annotated[Path | None, typer.Option(hidden=True)] = None,
    files: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run one job in this process, until it ends or you stop it with Ctrl-C or SIGTERM.

    A stopped job finishes its micro-batch first. The next run starts from its checkpoint. The job
    keeps its progress, log and checkpoint in a directory of the project's storage.

    \b
    Example: run the job of conf/jobs/clicks.yml on a broker of your own
      kfetch broker start --port 9092
      KFETCH_BOOTSTRAP=127.0.0.1:9092 kfetch run clicks
    """
    from kfetch_jobs.supervise.leadership import term_file
    from kfetch_jobs.util.redact import redacted_output
    from kfetch_jobs.util.rotating_log import RunLog

    redacted: Callable[[str], str] = str
    try:
        whole = project_of(project, environment, files)
        if ending:  # the supervisor has directed the output to this file
            RunLog(whole.storage / job / "run.log").install()
        loaded = whole.job(job)
        redacted = loaded.redacted
        led = ending is not None and whole.file.sharedState is not None
        with redacted_output(redacted):
            outcome = _run(loaded, term_file(whole.storage) if led else None)
    except Exception as error:
        if ending:
            _write_error(ending, error, redacted)
        raise
    if ending:
        _write_outcome(ending, outcome)
    if as_json:
        typer.echo(json.dumps(asdict(outcome)))


def _run(job: Job, term: TermFile | None) -> RunResult:
    from kfetch_jobs.run import run as run_job

    typer.echo(f"job {job.name} writes {job.target} (log: {job.directory / 'spark.log'})", err=True)
    outcome = run_job(job, _print_batch, term)
    how = "stopped" if outcome.stopped else "ended"
    typer.echo(
        f"{how}: {counted(outcome.batches, 'micro-batch', 'micro-batches')}, "
        f"{outcome.rows:,} records, {outcome.lag:,} behind{_dead(outcome.dead_letters)}",
        err=True,
    )
    return outcome


def _print_batch(batch: Batch) -> None:
    rate = batch.rows / batch.seconds if batch.seconds else 0
    late = counted(batch.late_rows, "row")
    typer.echo(
        f"batch {batch.batch}: {batch.rows:,} records in {batch.seconds:.1f} s "
        f"({rate:,.0f} records/s), {batch.lag:,} behind{_dead(batch.dead_letters)}"
        f"{f', {late} dropped by the watermark' if batch.late_rows else ''}",
        err=True,
    )


def _dead(letters: int) -> str:
    """Returns an empty text if there are no dead letters."""
    return f", {counted(letters, 'dead letter')}" if letters else ""


def _write_outcome(path: Path, outcome: RunResult) -> None:
    from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
    from kfetch_jobs.progress.reports import write_exit_report

    kind = ExitKind.STOPPED if outcome.stopped else ExitKind.FINISHED
    write_exit_report(path, ExitReport(kind=kind))


def _write_error(path: Path, error: Exception, redacted: Callable[[str], str]) -> None:
    from kfetch.errors import KfetchError
    from kfetch_jobs.progress.exit_report import error_report
    from kfetch_jobs.progress.reports import write_exit_report

    text = str(error) if isinstance(error, KfetchError) else f"{type(error).__name__}: {error}"
    write_exit_report(path, error_report(error, redacted(text)))
