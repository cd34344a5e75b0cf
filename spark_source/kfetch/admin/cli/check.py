"""The verb ``kfetch check``: this machine, Spark's executors, and a Kafka cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json, PropertiesFile, option_pairs, print_result
from kfetch.admin.cli.source_options import CONNECTIONS, cluster_options, source_options

if TYPE_CHECKING:
    from kfetch.admin.brokers import ClusterState
    from kfetch.admin.platform import Platform

_NO_SERVER = "none:9092"
"""Checks options without a cluster. Nothing connects to it."""


def check(
    servers: Annotated[
        str,
        typer.Argument(
            metavar="[HOST:PORT[,…]]",
            help="Bootstrap servers of the cluster. Default: those of --properties.",
        ),
    ] = "",
    topic: Annotated[
        list[str] | None, typer.Option(help="Check this topic too. Repeat it for more topics.")
    ] = None,
    option: Annotated[list[str] | None, option_pairs("An option kafka.NAME or kfetch.NAME")] = None,
    properties: PropertiesFile = None,
    executors: Annotated[
        bool,
        typer.Option("--executors", help="Start a Spark session, and check its executors too."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check this machine, and that the source can read from a Kafka cluster. It changes nothing.

    The first lines have the versions of Spark, Python, Java and libraries, the memory limit, and
    whether an agent can run here. If it can't, they say why. With --executors, the command starts a
    Spark session with the settings of spark-defaults.conf, and asks executors for the same. An
    executor with another release of kfetch is an error.

    With servers or --properties, the command asks the cluster for its id, its API versions, its
    brokers and the topics that you name. Then it connects to each broker at its advertised
    address. If queries can't read, the command says what to do and exits with 1. For example, ACLs
    may let the user describe a topic and not read it.

    Every user of a machine sees the arguments of a command. So --option takes no passwords. Put
    them into a file that only you may read, and name it with --properties.

    \b
    Example: this machine alone
      kfetch check
    Example: brokers and a topic
      kfetch check localhost:9092 --topic clicks
    Example: a cluster with TLS and a log-in
      kfetch check kafka.example:9093 --properties client.properties --topic clicks
    """
    from kfetch.admin import brokers, platform
    from kfetch.admin.cli import text
    from kfetch.admin.query import parse_options

    given = source_options(properties, option or (), prefixes=CONNECTIONS)
    asks_cluster = servers or topic or "kafka.bootstrap.servers" in given
    options = cluster_options(servers if asks_cluster else _NO_SERVER, properties, option or ())
    agent = parse_options({**options, "subscribe": "none"}).agent
    state = brokers.check(options, topic or ()) if asks_cluster else None
    driver, others = platform.describe(), _executors() if executors else []
    lines = [*_lines("this machine", driver)]
    lines += [line for one in others for line in _lines("executor", one)]
    lines += text.cluster_lines(state) if state else []
    platforms = {"driver": asdict(driver), "executors": [asdict(one) for one in others]}
    cluster = text.cluster_json(state) if state else {}
    print_result(as_json, cluster | {"platforms": platforms}, lines)
    _check_releases(driver, others)
    _raise_problems(state, (others or [driver]) if agent.place == "process" else [])


def _executors() -> list[Platform]:
    from kfetch.admin import platform
    from kfetch.errors import ClusterUnusable, OptionError

    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise OptionError(
            "--executors needs PySpark, and this Python has none",
            action="run the command with the driver's Python, or pip install 'kfetch[spark]'",
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName("kfetch check").getOrCreate()
    try:
        return platform.on_executors(spark)
    except PySparkException as cause:
        (*_, line) = str(cause).strip().splitlines()
        raise ClusterUnusable(
            f"no executor could be asked ({line})",
            action="install kfetch for the Python of the executors, which PYSPARK_PYTHON names",
        ) from None
    finally:
        spark.stop()


def _lines(name: str, one: Platform) -> list[str]:
    versions = ", ".join(f"{package} {version}" for package, version in one.versions.items())
    limit = f"{one.memory_limit >> 20:,} MiB" if one.memory_limit else "none"
    memory = f"memory limit {limit}, in use {one.memory_used >> 20:,} MiB"
    lines = [f"{name} {one.host}: {one.system}, {one.cpus} CPUs", f"  {versions}", f"  {memory}"]
    if one.agent == "inline":
        lines.append("  agent: none by default (kfetch.agent=inline), because it needs Linux")
    elif one.problems:
        lines.append(f"  agent: can't run here, {one.advice}")
        lines += [f"    {problem}" for problem in one.problems]
    else:
        lines.append("  agent: runs in its own process, the default (kfetch.agent=process)")
    return lines + [f"  warning: {warning}" for warning in one.warnings]


def _check_releases(driver: Platform, executors: Iterable[Platform]) -> None:
    from kfetch.errors import ReleasesDiffer

    ours = driver.versions["kfetch"]
    for one in executors:
        theirs = one.versions["kfetch"]
        if theirs != ours:
            raise ReleasesDiffer(
                f"the executor {one.host} has kfetch {theirs}, and the driver has kfetch {ours}",
                action="install the same release for the driver and all executors",
                sent=ours,
                installed=theirs,
            )


def _raise_problems(state: ClusterState | None, platforms: list[Platform]) -> None:
    from kfetch.errors import AgentError, ClusterUnusable

    for one in platforms:
        if one.agent == "process" and one.problems:
            sentence = f"no agent can run on {one.host}: {one.problems[0]}"
            raise AgentError(sentence, action=one.advice)
    if state is not None and state.problems:
        more = f" (and {len(state.problems) - 1} more)" if len(state.problems) > 1 else ""
        raise ClusterUnusable(f"{state.problems[0]}{more}")
