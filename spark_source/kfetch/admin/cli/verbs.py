"""kfetch's own verbs: ``check``, ``infer``, ``explain``, ``options``, ``agents``, ``warm`` and
``checkpoint``.

Each verb imports its modules when it runs, so ``kfetch --help`` is quick.
"""

from __future__ import annotations

import math
from typing import Annotated

import typer

from kfetch.admin.cli import checkpoints
from kfetch.admin.cli.arguments import Json, print_result
from kfetch.admin.cli.check import check
from kfetch.admin.cli.samples import infer

_RATES_S_MAX = 3600.0


def add(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    short = "Check this machine and a Kafka cluster."
    app.command(short_help=short)(check)
    short = "Print the schema of a topic's JSON, and how many records fit it."
    app.command(short_help=short)(infer)
    app.command(short_help="Explain an error by its code, without a network.")(explain)
    app.command(short_help="List the options of the source, with defaults and meanings.")(options)
    app.command(short_help="List the agents of this machine and their fetch sessions.")(agents)
    app.command(short_help="Compile the record decoder in advance, for images.")(warm)
    checkpoints.add(app)


def explain(
    code: Annotated[
        str, typer.Argument(metavar="[CODE]", help="The code at the end of an error.")
    ] = "",
) -> None:
    """Print the page of an error: what happened, how to look, what to do.

    An error ends with its code in brackets, as in [LOG_TRUNCATED]. A code with two parts, as in
    [RECORDS_LOST.LOG_TRUNCATED], has two pages. Without a code the command lists all codes. It
    needs no network.

    \b
    Example: the page of an error
      kfetch explain LOG_TRUNCATED
    """
    from kfetch.admin import explanations

    if code:
        pages = "\n".join(map(explanations.page, explanations.code_classes(code)))
        typer.echo(explanations.without_links(pages), nl=False)
        return
    for kind in sorted(explanations.classes(), key=lambda kind: kind.condition):
        typer.echo(f"{kind.condition}: {explanations.meaning_and_action(kind)[0]}")


def options(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="List only options whose names contain this.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the options of the source, one per line: name, default, meaning.

    kfetch does not read some options of Spark's Kafka connector. The list says what kfetch does
    instead.

    \b
    Example: options of fetching
      kfetch options fetch
    """
    from kfetch.admin.cli import text
    from kfetch.admin.query import known_options, similar_option
    from kfetch.errors import OptionError

    rows = known_options(name)
    if not rows:
        near = similar_option(name)
        advice = f"did you mean {near.name}?" if near else "kfetch options lists all"
        raise OptionError(f"no option has {name!r} in its name", action=advice, option=name)
    print_result(as_json, [text.option_json(row) for row in rows], text.option_lines(rows))


def _number(seconds: float) -> float:
    if math.isnan(seconds):  # a comparison with the limits does not find it
        raise typer.BadParameter(f"{seconds} is not a number of seconds")
    return seconds


def agents(
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=_RATES_S_MAX,
            callback=_number,
            help="Measure rates over this time, in seconds.",
        ),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """List the agents of your Spark executors on this machine, with their fetch sessions.

    Each executor that reads with kfetch.agent=process has one agent. An agent ends with its
    executor. A query has the id that Spark's progress shows.

    \b
    Example: queries and sessions, for a script
      kfetch agents --json
    """
    from kfetch.admin.agents import find_with_rates
    from kfetch.admin.cli import text

    statuses = find_with_rates(seconds)
    lines = [line for agent in statuses for line in text.agent_lines(*agent)]
    none = ["no agent runs on this machine: queries with kfetch.agent=process start agents"]
    print_result(as_json, [text.agent_json(*agent) for agent in statuses], lines or none)


def warm(
    pyspark: Annotated[
        bool, typer.Option("--pyspark", help="Add bytecode to Spark's pyspark.zip too.")
    ] = False,
) -> None:
    """Compile the record decoder into a cache, so that no executor has to compile it.

    Set KFETCH_CACHE to the same directory here and where Spark runs. If Spark runs as another user,
    root must own the cache. The compiled code fits this kind of CPU. To make it fit all CPUs, set
    NUMBA_CPU_NAME=generic here and where Spark runs.

    With --pyspark a query starts sooner. Spark's pyspark.zip has no bytecode, so five Python
    processes compile pyspark before the first micro-batch. That takes half a second each.
    --pyspark adds the bytecode.

    \b
    Example: in a Dockerfile
      ENV KFETCH_CACHE=/opt/kfetch-cache
      RUN kfetch warm --pyspark
    """
    from kfetch.admin import bytecode, decoder

    archive = bytecode.pyspark_archive() if pyspark else None
    typer.echo(decoder.warm())
    if archive is not None:
        typer.echo(f"{archive} has bytecode for {bytecode.add_bytecode(archive)} modules")


OWN = ("check", "infer", "explain", "options", "agents", "warm", "checkpoint")
"""The names of kfetch's own verbs."""
