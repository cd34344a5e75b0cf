"""``kfetch demo``: kills a job midway, and counts every event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json

if TYPE_CHECKING:  # late in the verb: it imports packages that may be missing
    from kfetch_jobs.demo.summary import Summary


def demo(
    seconds: Annotated[
        float, typer.Option(min=1, help="How long the demo produces events, in seconds.")
    ] = 40,
    rate: Annotated[int, typer.Option(min=100, help="The number of events per second.")] = 20_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep Kafka's data, the table and all logs.")
    ] = False,
    open_page: Annotated[
        bool,
        typer.Option(
            "--open",
            help="At the end, run the job under a supervisor and open its page, until Ctrl-C.",
        ),
    ] = False,
    project: Annotated[
        Path | None, typer.Option("--project", help="Run a job of this project file instead.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", help="The job to run from your project. It must fill one topic."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Kill a streaming job midway, and show that no event is lost and none is there twice.

    The demo starts a Kafka broker, a producer of click events, and a job. The job writes the events
    to a Delta table. Midway the demo sends SIGKILL to the job's processes, and starts the job
    again. At the end it prints the counts and a plot. It exits with 0 only if the table has every
    event exactly once.

    The demo brings its own job and needs no project. First it checks Java, Python packages and disk
    space.

    With --project or --job it runs a job of your project. The job must read a single topic from
    the cluster at ${env:KFETCH_BOOTSTRAP}, and write into the storage ${env:KFETCH_STORAGE}. Its
    table needs the columns event_id, partition and offset. With --open it must be the only enabled
    job.

    \b
    Example: a short demo
      kfetch demo --seconds 10 --rate 5000
    Example: look at the job's page afterwards
      kfetch demo --open
    Example: keep all data and logs
      kfetch demo --keep
    """
    import signal
    import sys

    from kfetch_jobs.demo import checks
    from kfetch_jobs.demo.settings import JOB, Settings, project_file
    from kfetch_jobs.errors import ConfigError

    # SIGTERM ends Python without cleaning up; this way it ends as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    settings = Settings(
        project=project_file(project, job, Path.cwd()),
        job=job or JOB,
        seconds=seconds,
        rate=rate,
        keep=keep,
        open_page=open_page,
    )
    if problems := checks.problems(settings):
        for sentence in problems:
            typer.echo(f"kfetch: {sentence}", err=True)
        raise typer.Exit(ConfigError.exit_code)
    # After the checks: these modules import the packages that may be missing.
    from kfetch_jobs.demo.scenario import play
    from kfetch_jobs.demo.screen import Screen, show

    def report(summary: Summary) -> None:
        screen.stop_bars()
        if as_json:
            typer.echo(json.dumps(summary.to_json()))
        else:
            show(summary)

    with Screen(settings.events) as screen:
        checks.download_jars(screen.print_line)
        summary = play(settings, screen, report)
    raise typer.Exit(0 if summary.counts.exact else 1)
