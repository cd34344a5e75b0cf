"""The verbs that kfetch has by itself: ``check``, ``options``, ``agents`` and ``warm``.

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
    app.command(short_help="Whether a Kafka cluster can be read: brokers, versions, topics.")(check)
    app.command(short_help="The options of the source, with defaults and meanings.")(options)
    app.command(short_help="The agents of this machine and their sessions.")(agents)
    app.command(short_help="Compile the record decoder now, for images.")(warm)


def check(
    servers: Annotated[
        str, typer.Argument(metavar="HOST:PORT[,…]", help="Bootstrap servers of the cluster.")
    ],
    topic: Annotated[
        list[str] | None, typer.Option(help="Look this topic up, too; may be repeated.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another option kafka.*; may be repeated."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Check a Kafka cluster as the source would use it, and change nothing.

    Asks for the cluster's id, the versions of its protocol, its brokers and the topics that you
    name. Then it connects to each broker at the address that the broker gives to clients. Exits
    with 1 if something keeps a query from reading, and says what to do.

    \b
    Example: brokers and a topic
      kfetch check localhost:9092 --topic clicks
    """
    from kfetch.admin import brokers
    from kfetch.cli import text
    from kfetch.errors import ClusterUnusable

    kafka = {"kafka.bootstrap.servers": servers, **dict(map(_pair, option or ()))}
    state = brokers.check(kafka, topic or ())
    if as_json:
        typer.echo(json.dumps(text.cluster_json(state)))
    else:
        typer.echo("\n".join(text.cluster_lines(state)))
    if state.problems:
        more = f" (and {len(state.problems) - 1} more)" if len(state.problems) > 1 else ""
        raise ClusterUnusable(f"{state.problems[0]}{more}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--option'")
    if not name.strip().lower().startswith("kafka."):
        raise typer.BadParameter(f"{name!r} does not begin with kafka.", param_hint="'--option'")
    return name.strip(), value


def options(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Only options with this in their name.")
    ] = "",
    as_json: _Json = False,
) -> None:
    """List the options of the source, one per line: name, default, meaning.

    Options that Spark's Kafka connector has and kfetch does not read are listed with what kfetch
    does instead.

    \b
    Example: options of fetching
      kfetch options fetch
    """
    from kfetch.admin.values import known_options
    from kfetch.cli import text
    from kfetch.errors import OptionError

    rows = known_options(name)
    if as_json:
        typer.echo(json.dumps([text.option_json(row) for row in rows]))
    elif rows:
        typer.echo("\n".join(text.option_lines(rows)))
    else:
        raise OptionError(
            f"no option has {name!r} in its name", action="kfetch options lists all", option=name
        )


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


OWN = (check, options, agents, warm)
"""kfetch's own verbs, in the order of the help."""
