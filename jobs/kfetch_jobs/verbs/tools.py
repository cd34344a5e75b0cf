"""``kfetch demo``, ``agents`` and ``warm``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kfetch_jobs.verbs.arguments import Json, ProjectFile

__all__ = ["agents", "demo", "warm"]


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


def agents(
    seconds: Annotated[float, typer.Option(min=0.1, help="Rates are of so many seconds.")] = 1.0,
    as_json: Json = False,
) -> None:
    """List the agents of your Spark executors on this machine, with their fetch sessions.

    There is one for each executor that reads with kfetch.agent=process. An agent leaves with its
    executor. Queries have the id that Spark gives them in their progress.

    \b
    Example: what a running query holds, for a script
      kfetch agents --json
    """
    from kfetch_jobs.looks.agents import describe, to_json, watch

    found = watch(seconds)
    if as_json:
        typer.echo(json.dumps([to_json(*agent) for agent in found]))
    elif not found:
        typer.echo("no agent runs here: queries with kfetch.agent=process start them")
    for agent in () if as_json else found:
        typer.echo(describe(*agent))


def warm(
    pyspark: Annotated[
        bool, typer.Option("--pyspark", help="Put bytecode into Spark's pyspark.zip, too.")
    ] = False,
) -> None:
    """Compile the record decoder and keep it, so that no executor has to.

    Set KFETCH_CACHE to the same directory now and where Spark runs; another user may only read it
    there if root owns it. What is compiled fits this kind of CPU; with NUMBA_CPU_NAME=generic, set
    in both places too, it fits all.

    Before a query's first micro-batch five Python processes of Spark's compile pyspark anew, for
    half a second each, because pyspark.zip comes without bytecode. --pyspark puts this Python's in.

    \b
    Example: in a Dockerfile
      ENV KFETCH_CACHE=/opt/kfetch-cache
      RUN kfetch warm --pyspark
    """
    from kfetch.decoder_loading import describe, load_decoder
    from kfetch_jobs.jvm import bytecode

    typer.echo(describe(load_decoder()))
    if pyspark:
        archive = bytecode.pyspark_archive()
        typer.echo(f"{bytecode.add_bytecode(archive)} modules have bytecode in {archive}")
