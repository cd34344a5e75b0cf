"""``kfetch broker``: starts, shows and stops a local Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kfetch.admin.cli.arguments import Json, print_result
from kfetch_jobs.errors import ConfigError

DIRECTORY = Path(".kfetch/broker")

_ABOUT = """Run a real Apache Kafka on this machine. It needs Java, and no Docker.

\b
Example: start a broker, and stop it
  kfetch broker start --port 9092
  kfetch broker stop
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=_ABOUT,
)

Dir = Annotated[
    Path, typer.Option("--dir", help="The directory for the broker's data, logs and state.")
]


@app.command()
def start(
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=9, help="The number of brokers. Default: as in --dir, or 1."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1024,
            max=65000,
            help="The port of the first broker. The others take the next ports.",
        ),
    ] = None,
    directory: Dir = DIRECTORY,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="K=V", help="A line for server.properties. Repeat it for more."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="How long to wait for all brokers, in seconds.")
    ] = 60,
    as_json: Json = False,
) -> None:
    """Start Kafka in the background, and print its address once it answers.

    This needs Java 17 or later. The first start downloads Kafka to a cache. If the directory has
    the data of an earlier broker, the new broker uses that data at the same address.

    The broker has no TLS and no log-ins: everybody on this machine may do everything there.

    \b
    Example: start a broker at 127.0.0.1:9092
      kfetch broker start --port 9092
    Example: start three brokers that keep records for a minute
      kfetch broker start --nodes 3 --property log.retention.ms=60000
    """
    from kfetch_jobs.kafka.cluster import Cluster

    _announce_download()
    cluster = Cluster.start(
        directory,
        nodes=nodes,
        port=port,
        properties=parse_properties(properties) if properties else None,
        detached=True,
        timeout_s=timeout,
    )
    reused = f"it has the data of an earlier start (remove {directory} for an empty broker)"
    lines = [
        f"Kafka is ready at {cluster.bootstrap_servers}",
        *([reused] if cluster.reused else []),
        f"stop it with: kfetch broker stop{_dir_option(directory)}",
    ]
    print_result(as_json, cluster.to_json() | {"reused": cluster.reused}, lines)


@app.command()
def status(directory: Dir = DIRECTORY, as_json: Json = False) -> None:
    """Show which brokers run, and their addresses. The command exits with 1 unless all of them run.

    \b
    Example: print the address, for a script
      kfetch broker status --json | jq -r .bootstrap_servers
    """
    from kfetch_jobs.kafka.cluster import Cluster

    now = Cluster.attach(directory).to_json()
    lines = [
        f"node {node['node_id']}  {node['address']}  "
        + (f"pid {node['pid']}" if node["pid"] else "not running")
        for node in now["nodes"]
    ]
    print_result(as_json, now, lines)
    if now["running"] < len(now["nodes"]):
        raise typer.Exit(1)


@app.command()
def stop(directory: Dir = DIRECTORY, as_json: Json = False) -> None:
    """Stop the brokers. Their data stays, and the next start uses it again.

    \b
    Example: stop the brokers and remove all data
      kfetch broker stop && rm -r .kfetch/broker
    """
    from kfetch_jobs.kafka.cluster import Cluster

    cluster = Cluster.attach(directory)
    stopped = cluster.stop()
    sentence = f"stopped {stopped} node(s)" if stopped else "no broker was running"
    print_result(as_json, cluster.to_json() | {"stopped": stopped}, [sentence])


def parse_properties(lines: list[str]) -> dict[str, str]:
    """Parse ``k=v`` lines. A value may have further equals signs. Raises ConfigError."""
    pairs = [line.partition("=") for line in lines]
    for (key, equals, _), line in zip(pairs, lines, strict=True):
        if not (key.strip() and equals):
            raise ConfigError(f"--property {line} is not of the form key=value")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _announce_download() -> None:
    from kfetch_jobs.jvm.java import find_java
    from kfetch_jobs.jvm.maven import cache_directory, is_cached
    from kfetch_jobs.kafka.settings import KAFKA

    find_java()  # before the download, which is useless without Java
    if not is_cached(*KAFKA):
        typer.echo(f"downloading Kafka to {cache_directory()}, once; a minute or two", err=True)


def _dir_option(directory: Path) -> str:
    return "" if directory == DIRECTORY else f" --dir {directory}"
