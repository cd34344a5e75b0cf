"""``kfetch demo``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kfetch_jobs.verbs.arguments import Json, ProjectFile

__all__ = ["demo"]


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long events are produced.")] = 40,
    rate: Annotated[int, typer.Option(min=100, help="Events a second.")] = 20_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep Kafka's data, the table and all logs.")
    ] = False,
    picture: Annotated[
        Path, typer.Option(help="Where the picture of throughput and lag goes.")
    ] = Path(".kfetch/demo/clicks.png"),
    project: ProjectFile = None,
    as_json: Json = False,
) -> None:
    """Kill a streaming job midway, and count that nothing is lost and nothing twice.

    Starts a Kafka broker, a producer of click events, and the job of conf/jobs/clicks.yml, which
    writes them to a Delta table. Midway the job's processes get SIGKILL and the job is started
    again. Exits with 0 only if every event is in the table exactly once.

    \b
    Example: a short one
      kfetch demo --seconds 10 --rate 5000
    Example: look at everything afterwards
      kfetch demo --keep
    """
    import signal
    import sys

    from kfetch_jobs import config
    from kfetch_jobs.demo.scenario import play
    from kfetch_jobs.demo.screen import Screen, show
    from kfetch_jobs.demo.settings import Settings

    # SIGTERM ends Python without cleaning up; this way it ends as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    settings = Settings(
        project=(project or config.find(Path.cwd())).absolute(),
        seconds=seconds,
        rate=rate,
        keep=keep,
        picture=picture,
    )
    with Screen(settings.events) as screen:
        summary = play(settings, screen)
    if as_json:
        typer.echo(json.dumps(summary.to_json()))
    else:
        show(summary)
    raise typer.Exit(0 if summary.counts.exact else 1)
