"""The verbs ``kfetch checkpoint show``, ``verify`` and ``to-kafka``.

Each verb imports its modules when it runs, so ``kfetch --help`` is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json, PropertiesFile, option_pairs, print_result
from kfetch.admin.cli.source_options import source_options

if TYPE_CHECKING:
    from kfetch.admin.checkpoint import Checkpoint

_SHORT = "Look at a checkpoint, or move it to Spark's connector."
_ABOUT = f"""{_SHORT}

\b
Example: continue a query of kfetch with Spark's connector
  kfetch checkpoint show /data/clicks
  kfetch checkpoint to-kafka /data/clicks
"""

_Path = Annotated[
    str, typer.Argument(metavar="PATH", help="The directory of the option checkpointLocation.")
]
_Location = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="The option checkpointLocation: a directory, or a URI such as s3a://bucket/clicks.",
    ),
]
_SparkProperties = Annotated[
    Path | None,
    typer.Option(
        help="A file with settings of Spark, such as spark-defaults.conf. Those that begin with "
        "spark.hadoop.fs. say how to reach a store."
    ),
]


def add(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_ABOUT)
    group.command(short_help="Print the sources, micro-batches and offsets.")(show)
    group.command(short_help="Compare the offsets with the logs in Kafka.")(verify)
    group.command("to-kafka", short_help="Write the offsets for Spark's connector.")(to_kafka)
    app.add_typer(group, name="checkpoint", short_help=_SHORT)


def show(
    path: _Location,
    all_partitions: Annotated[
        bool, typer.Option("--all", help="List every partition, not only ten of each topic.")
    ] = False,
    spark_properties: _SparkProperties = None,
    as_json: Json = False,
) -> None:
    """Print a checkpoint: sources, micro-batches, offsets, and what the next start does.

    The command reads checkpoints of kfetch and of Spark's Kafka connector. Each offset is the next
    one to read. The leader epoch stands behind it, if the checkpoint has one. If jobs of kfetch use
    the checkpoint, the command says which process on which host holds it. The command changes
    nothing, and the query may run.

    \b
    Example: a query's checkpoint
      kfetch checkpoint show /data/clicks
    """
    from kfetch.admin.checkpoint import read_lease
    from kfetch.admin.cli import checkpoint_text

    checkpoint = _read(path, spark_properties)
    lease = read_lease(checkpoint.path)
    lines = checkpoint_text.checkpoint_lines(checkpoint, lease, all_partitions)
    print_result(as_json, checkpoint_text.checkpoint_json(checkpoint, lease), lines)


def _read(location: str, spark_properties: Path | None) -> Checkpoint:
    from kfetch.admin.checkpoint import open_checkpoint, read_checkpoint
    from kfetch.admin.cli.properties import read_spark_properties

    settings = read_spark_properties(spark_properties) if spark_properties else {}
    return read_checkpoint(open_checkpoint(location, settings))


def verify(
    path: _Location,
    option: Annotated[list[str] | None, option_pairs("An option of the source")] = None,
    properties: PropertiesFile = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Check only this source. Use it if the query's sources differ in options."
        ),
    ] = None,
    spark_properties: _SparkProperties = None,
    as_json: Json = False,
) -> None:
    """Compare a checkpoint with the logs in Kafka. The command changes nothing.

    \b
    It asks Kafka three questions:
    - Do the topics still exist, with the same ids?
    - Do the logs still have the offsets?
    - Has an unclean leader election cut a log?

    Without the option subscribe, subscribePattern or assign it checks the partitions of the
    checkpoint. If the next start with format("kfetch") would fail or lose records, the command says
    what to do and exits with 1. It also does so for an unfinished first batch of Spark's connector,
    unless startingOffsets is fixed.

    Every user of a machine sees the arguments of a command. So --option takes no passwords. Put
    them into a file that only you may read, and name it with --properties.

    \b
    Example: before a query starts with the other source
      kfetch checkpoint verify /data/clicks --option kafka.bootstrap.servers=localhost:9092
    """
    from kfetch.admin import checkpoint_check
    from kfetch.admin.cli import checkpoint_text
    from kfetch.errors import CheckpointMismatch

    options = source_options(properties, option or ())
    checkpoint = _read(path, spark_properties)
    checks = checkpoint_check.verify(checkpoint, options, source)
    document = checkpoint_text.checks_json(checkpoint, checks)
    print_result(as_json, document, checkpoint_text.check_lines(checks))
    count = sum(len(check.findings) for check in checks)
    if count:
        offsets = "1 finding" if count == 1 else f"{count} findings"
        raise CheckpointMismatch(
            f"the checkpoint {checkpoint.path} does not fit the logs in Kafka ({offsets})",
            action="do what the sentences above say",
            file=str(checkpoint.path),
        )


def to_kafka(
    path: _Path,
    force: Annotated[
        bool,
        typer.Option("--force", help="Write even if a query seems to run. You have stopped it."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a checkpoint's offsets in the form of Spark's Kafka connector. Stop the query first.

    After that, a query with format("kafka") continues where kfetch has stopped. The command copies
    the checkpoint's logs to PATH.backups. Then it rewrites the last two files of offsets. It does
    not change lines of other sources. An unfinished micro-batch keeps its offsets.

    Spark holds no lock on a checkpoint, so the command looks for signs of a running query. It
    refuses if a job of kfetch runs on the checkpoint. It also refuses if an agent of this machine
    reads for the query, or if the checkpoint was written in the last minute. --force skips the last
    two checks.

    \b
    Example: back to Spark's connector
      kfetch checkpoint to-kafka /data/clicks
    """
    from kfetch.admin.checkpoint import checkpoint_directory
    from kfetch.admin.cli import checkpoint_text
    from kfetch.admin.to_connector import to_connector

    directory = checkpoint_directory(path)
    conversion = to_connector(directory, force=force)
    lines = checkpoint_text.conversion_lines(directory, conversion)
    print_result(as_json, checkpoint_text.conversion_json(conversion), lines)
