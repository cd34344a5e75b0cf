"""The verbs that kfetch has by itself: ``agents`` and ``warm``.

What a verb uses is imported when it runs, so that ``kfetch --help`` is quick.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["OWN", "add"]

_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def add(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command(short_help="The agents of this machine and their sessions.")(agents)
    app.command(short_help="Compile the record decoder now, for images.")(warm)


def agents(
    seconds: Annotated[float, typer.Option(min=0.1, help="Rates are of so many seconds.")] = 1.0,
    as_json: _Json = False,
) -> None:
    """List the agents of your Spark executors on this machine, with their fetch sessions.

    There is one for each executor that reads with kfetch.agent=process. An agent leaves with its
    executor. Queries have the id that Spark gives them in their progress.

    \b
    Example: what a running query holds, for a script
      kfetch agents --json
    """
    from kfetch.admin.agents import find_with_rates
    from kfetch.cli import text

    statuses = find_with_rates(seconds)
    if as_json:
        typer.echo(json.dumps([text.agent_json(*agent) for agent in statuses]))
    elif not statuses:
        typer.echo("no agent runs here: queries with kfetch.agent=process start them")
    for agent in () if as_json else statuses:
        typer.echo("\n".join(text.agent_lines(*agent)))


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
    from kfetch.admin import bytecode, decoder

    archive = bytecode.pyspark_archive() if pyspark else None
    typer.echo(decoder.warm())
    if archive is not None:
        typer.echo(f"{bytecode.add_bytecode(archive)} modules have bytecode in {archive}")


OWN = (agents, warm)
"""kfetch's own verbs, in the order of the help."""
