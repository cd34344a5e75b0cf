"""``kfetch list``, ``status``, ``history`` and ``logs``: the state of jobs, and their past runs."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json
from kfetch_jobs.util.wording import duration, utc
from kfetch_jobs.verbs.arguments import with_project
from kfetch_jobs.verbs.text import console, number, table

if TYPE_CHECKING:  # late in the verbs: `kfetch --help` needs none of it
    from kfetch_jobs.config import Project
    from kfetch_jobs.supervise.status import JobStatus, ProjectStatus

_WATCH_S = 1.0


def _overview(project: Project) -> ProjectStatus:
    from kfetch_jobs.supervise.status_reader import read_status
    from kfetch_jobs.supervise.store import Store

    with Store.of(project.storage) as store:
        return read_status(project, store, time.time())


@with_project
def list_jobs(*, project: Project, as_json: Json = False) -> None:
    """List the project's jobs with their topics, tables and triggers.

    \b
    Example: print only the names, for a script
      kfetch list --json | jq -r '.[].name'
    """
    overview = _overview(project)
    jobs = [job for job in overview.jobs if not job.orphan]
    if as_json:
        typer.echo(json.dumps([job.to_json() for job in jobs]))
        return
    rows = [
        (job.name, ", ".join(job.topics), job.target, _when(job), job.mistake or job.description)
        for job in jobs
    ]
    table(("job", "topics", "table", "trigger", "about"), rows)


def _when(job: JobStatus) -> str:
    after = f" after {', '.join(job.after)}" if job.after else ""
    return f"{job.trigger}{after}" if job.enabled else "disabled"


@with_project
def status(
    *,
    project: Project,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the state again each second, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the state of each job: phase, lag, failures, and its problems.

    \b
    The command exits with 3 in these cases:
    - No supervisor runs, or its loop does not go on. With sharedState: no supervisor leads.
    - A job is beyond the limits of its file.
    - A job waits after a failure, or the supervisor has given it up.
    - A job still runs although its file is gone or disables it.
    - A job waits for one that does not exist, is disabled, or never ends.

    \b
    Example: watch jobs from a monitoring script
      kfetch status --json || echo "something is wrong"
    """
    from kfetch_jobs.errors import Unhealthy

    overview = _overview(project)
    _print(overview, as_json)
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(_WATCH_S)
            overview = _overview(project)
            if not as_json:
                console().clear()
            _print(overview, as_json)
    if not overview.healthy:
        raise typer.Exit(Unhealthy.exit_code)


def _print(overview: ProjectStatus, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(overview.to_json()))
    else:
        _show(overview)


def _show(overview: ProjectStatus) -> None:
    now = time.time()
    environment = f" ({overview.environment})" if overview.environment else ""
    name = f"{overview.project}{environment}"
    if overview.supervisor is None:
        here = " on this host" if overview.lead else ""
        typer.echo(f"{name}: no supervisor runs{here}: start one with kfetch up")
    else:
        since = duration(now - (overview.supervised_s or now))
        does = "waits for the lead" if overview.waits_here else "supervised"
        typer.echo(f"{name}: {does} for {since} by process {overview.supervisor}")
    for sentence in overview.lead.sentences() if overview.lead else ():
        typer.echo(sentence)
    if overview.stuck:
        age = duration(overview.loop_age_s or 0.0)
        typer.echo(
            f"the supervisor has done nothing for {age}: it takes no orders and restarts no job: "
            "see kfetch logs"
        )
    supervised = overview.supervisor is not None or overview.led_elsewhere
    rows = [_status_row(job, now, supervised=supervised) for job in overview.jobs]
    table(("job", "phase", "since", "batch", "behind", "waiting", "failures", "about"), rows)


def _status_row(job: JobStatus, now: float, *, supervised: bool) -> tuple[str, ...]:
    return (
        job.name,
        _phase(job),
        duration(now - job.since_s) if job.since_s is not None else "",
        number(job.batch if job.batch is not None else job.last_batch),
        _behind(job, now),
        duration(job.lag_s) if job.lag_s else "",
        number(job.failures or None),
        "; ".join(filter(None, (_about(job, now, supervised=supervised), _lease(job, now)))),
    )


def _lease(job: JobStatus, now: float) -> str:
    """Returns who holds the job's lease; nothing for the job's own run of this machine."""
    lease = job.lease_of_others
    if lease is None or lease.since_s is None:
        return str(lease or "")
    return f"{lease} for {duration(now - lease.since_s)}"


def _phase(job: JobStatus) -> str:
    if job.starting:
        return "starting"
    return str(job.phase or ("-" if job.enabled else "disabled"))


def _behind(job: JobStatus, now: float) -> str:
    """Returns ``?`` for a lag that nobody knows: not yet, or while a broker is away."""
    if not job.lag_is_known:
        return "?" if job.pulse_s is not None else ""
    if not job.lag_at_least or job.lag_seen_at is None:
        return number(job.lag)
    return f"at least {number(job.lag)}, {duration(now - job.lag_seen_at)} ago"


def _about(job: JobStatus, now: float, *, supervised: bool) -> str:
    """Returns the job's problem, else its next step. Without a supervisor there is no next step."""
    from kfetch_jobs.supervise.job_state import Phase

    settled = (None, Phase.FINISHED, Phase.FAILED, Phase.PAUSED, Phase.STOPPED)
    file_is_good = job.enabled and not job.mistake and not job.orphan
    if not supervised and file_is_good and job.phase not in settled:
        return "; ".join((*job.unhealthy, "not supervised: kfetch up"))
    return "; ".join(job.unhealthy) or _next(job, now) or _unknown_lag(job)


def _unknown_lag(job: JobStatus) -> str:
    """Returns why nobody knows the lag; empty if it is known."""
    if job.lag_is_known or job.pulse_s is None:
        return ""
    return "how far it is behind is known after this run's first micro-batch"


def _next(job: JobStatus, now: float) -> str:
    from kfetch_jobs.supervise.job_state import Phase

    if job.phase is not Phase.WAITING:
        return job.error
    if job.queue_place:
        return f"for room: place {job.queue_place} in the queue"
    if job.due_s is None:
        return f"after {', '.join(job.after)}"
    return f"in {duration(job.due_s - now)}" if job.due_s > now else "due"


@with_project
def history(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB...]", help="The names of the jobs. Default: all jobs."),
    ] = None,
    *,
    project: Project,
    count: Annotated[
        int,
        typer.Option(
            "-n",
            min=1,
            max=1000,
            help="The number of runs to show: of all jobs together, or of each named job.",
        ),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs of kfetch up: their start, their duration, how they ended, and why.

    The records are those that the run has read, dead letters included. JSON calls them rows.

    \b
    Example: print the last failures of one job
      kfetch history clicks -n 100 --json | jq '.[] | select(.kind == "failed")'
    """
    from kfetch_jobs.supervise.leadership import read_lead
    from kfetch_jobs.supervise.status import with_times
    from kfetch_jobs.supervise.store import Store

    with Store.of(project.storage) as store:
        read_lead(project, store)
        names: list[str | None] = [*jobs] if jobs else [None]
        runs = [run for job in names for run in store.history(job, count)]
    if as_json:
        typer.echo(json.dumps([with_times(asdict(run)) for run in runs]))
        return
    rows = [
        (
            run.job,
            utc(run.started_s),
            duration((run.ended_s or time.time()) - run.started_s),
            str(run.kind or "running"),
            f"{run.batches:,}" if run.ended_s else "",
            f"{run.rows:,}" if run.ended_s else "",
            run.sentence,
        )
        for run in runs
    ]
    table(("job", "started", "for", "ended", "batches", "records", "why"), rows)
    if not rows:
        typer.echo("no runs: kfetch up notes its runs; kfetch run prints to its own terminal")


@with_project
def logs(
    job: Annotated[
        str | None, typer.Argument(help="The name of the job. Default: the supervisor's log.")
    ] = None,
    *,
    project: Project,
    lines: Annotated[int, typer.Option("-n", min=0, help="The number of lines to print.")] = 50,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Also print new lines, until Ctrl-C.")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Print Spark's log of the job.")] = False,
) -> None:
    """Print the end of a job's log, of Spark's log for it, or of the supervisor's log.

    \b
    Example: follow one job
      kfetch logs clicks -f
    """
    from kfetch_jobs.supervise.log_tail import follow_lines, last_lines
    from kfetch_jobs.supervise.supervisor_log import log_file

    path = log_file(project.storage)
    redacted, writer = project.redacted, "kfetch up writes it"
    if job is not None:
        one = project.job(job)
        path, redacted = one.directory / ("spark.log" if spark else "run.log"), one.redacted
        writer = "a run writes it" if spark else f"{writer}; kfetch run prints to its own terminal"
    for line in last_lines(path, lines, redacted, writer):
        typer.echo(line)
    for line in follow_lines(path) if follow else ():
        typer.echo(redacted(line))
