"""``kfetch list``, ``status``, ``history`` and ``logs``: how jobs are, and how they were."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch_jobs.verbs.arguments import Environment, Json, ProjectFile, project_of
from kfetch_jobs.verbs.text import console, duration, number, table

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project
    from kfetch_jobs.supervise.view import JobView, Overview

__all__ = ["add"]

_WATCH_S = 1.0


def add(app: typer.Typer) -> None:
    """Mount the verbs."""
    app.command("list", short_help="The project's jobs, by their files.")(list_jobs)
    app.command(short_help="How the jobs are now.")(status)
    app.command(short_help="The last runs of jobs, and how they ended.")(history)
    app.command(short_help="What a job or the supervisor has said.")(logs)


def _overview(project: Project) -> Overview:
    from kfetch_jobs.supervise.store import Store
    from kfetch_jobs.supervise.view import overview

    with Store.of(project.storage) as store:
        return overview(project, store, time.time())


def list_jobs(
    project: ProjectFile = None, environment: Environment = None, as_json: Json = False
) -> None:
    """List the project's jobs: what they read, where it goes, when they run.

    \b
    Example: names alone, for a script
      kfetch list --json | jq -r '.[].name'
    """
    found = _overview(project_of(project, environment))
    if as_json:
        typer.echo(json.dumps([asdict(job) for job in found.jobs]))
        return
    rows = [
        (job.name, ", ".join(job.topics), job.target, _when(job), job.mistake or job.description)
        for job in found.jobs
    ]
    table(("job", "topics", "table", "trigger", "about"), rows)


def _when(job: JobView) -> str:
    after = f" after {', '.join(job.after)}" if job.after else ""
    return f"{job.trigger}{after}" if job.enabled else "disabled"


def status(
    project: ProjectFile = None,
    environment: Environment = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again each second, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell how the jobs are: phase, lag, failures, and what is not as it should be.

    Exits with 3 if a job is unhealthy by its file's limits, waits after a failure or was given
    up, or if no supervisor runs.

    \b
    Example: for a monitoring script
      kfetch status --json || echo "something is wrong"
    """
    from kfetch_jobs.errors import Unhealthy

    found = project_of(project, environment)
    shown = _overview(found)
    _print(shown, as_json)
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(_WATCH_S)
            shown = _overview(found)
            if not as_json:
                console().clear()
            _print(shown, as_json)
    if not shown.healthy:
        raise typer.Exit(Unhealthy.exit_code)


def _print(shown: Overview, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(shown.to_json()))
    else:
        _show(shown)


def _show(shown: Overview) -> None:
    now = time.time()
    environment = f" ({shown.environment})" if shown.environment else ""
    if shown.supervisor is None:
        typer.echo(f"{shown.project}{environment}: no supervisor runs: start one with kfetch up")
    else:
        since = duration(now - (shown.supervised_s or now))
        typer.echo(f"{shown.project}{environment}: supervised for {since} by {shown.supervisor}")
    rows = [_status_row(job, now, shown.supervisor) for job in shown.jobs]
    table(("job", "phase", "since", "batch", "behind", "waiting", "failures", "about"), rows)


def _status_row(job: JobView, now: float, supervisor: int | None) -> tuple[str, ...]:
    return (
        job.name,
        str(job.phase or ("-" if job.enabled else "disabled")),
        duration(now - job.since_s) if job.since_s is not None else "",
        number(job.batch),
        number(job.lag),
        duration(job.lag_s) if job.lag_s else "",
        number(job.failures or None),
        _about(job, now, supervisor),
    )


def _about(job: JobView, now: float, supervisor: int | None) -> str:
    """Why it is not as it should be, else what comes next; without a supervisor nothing does."""
    from kfetch_jobs.supervise.machine import Phase

    settled = (None, Phase.FINISHED, Phase.FAILED, Phase.PAUSED, Phase.STOPPED)
    if supervisor is None and job.enabled and not job.mistake and job.phase not in settled:
        return "; ".join((*job.unhealthy, "not supervised: kfetch up"))
    return "; ".join(job.unhealthy) or _next(job, now)


def _next(job: JobView, now: float) -> str:
    from kfetch_jobs.supervise.machine import Phase

    if job.phase is not Phase.WAITING:
        return job.error
    if job.due_s is None:
        return f"after {', '.join(job.after)}"
    return f"in {duration(job.due_s - now)}" if job.due_s > now else "for room"


def history(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Else all.")] = None,
    project: ProjectFile = None,
    environment: Environment = None,
    count: Annotated[
        int,
        typer.Option(
            "-n", min=1, max=1000, help="So many of the last runs: of all, or of each job named."
        ),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs: when they began, how long they took, how they ended, and why.

    \b
    Example: the last failures of one job
      kfetch history clicks -n 100 --json | jq '.[] | select(.kind == "failed")'
    """
    from kfetch_jobs.supervise.store import Store

    found = project_of(project, environment)
    with Store.of(found.storage) as store:
        asked: list[str | None] = [*jobs] if jobs else [None]
        runs = [run for job in asked for run in store.history(job, count)]
    if as_json:
        typer.echo(json.dumps([asdict(run) for run in runs]))
        return
    rows = [
        (
            run.job,
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_s)),
            duration((run.ended_s or time.time()) - run.started_s),
            str(run.kind or "running"),
            f"{run.batches:,}" if run.ended_s else "",
            f"{run.rows:,}" if run.ended_s else "",
            run.sentence,
        )
        for run in runs
    ]
    table(("job", "started", "for", "ended", "batches", "rows", "why"), rows)


def logs(
    job: Annotated[str | None, typer.Argument(help="The job; else the supervisor.")] = None,
    project: ProjectFile = None,
    environment: Environment = None,
    lines: Annotated[int, typer.Option("-n", min=0, help="So many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="And all that come.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Spark's log of the job.")] = False,
) -> None:
    """Print what a job has said (micro-batches, errors), or Spark for it, or the supervisor.

    \b
    Example: one job as it goes
      kfetch logs clicks -f
    """
    from kfetch_jobs.supervise.log import log_file
    from kfetch_jobs.supervise.tail import added, last

    found = project_of(project, environment)
    path = log_file(found.storage)
    redacted, writer = found.redacted, "kfetch up writes it"
    if job is not None:
        its = found.job(job)
        path, redacted = its.directory / ("spark.log" if spark else "run.log"), its.redacted
        writer = "a run writes it" if spark else f"{writer}; kfetch run prints to its own terminal"
    for line in last(path, lines, redacted, writer):
        typer.echo(line)
    for line in added(path) if follow else ():
        typer.echo(redacted(line))
