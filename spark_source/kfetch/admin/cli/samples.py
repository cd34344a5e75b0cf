"""The verb ``infer``: which schema the JSON of a topic has, and which records fit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kfetch.admin.cli.arguments import Json, PropertiesFile, option_pairs, print_result
from kfetch.admin.cli.source_options import REGISTRIES, cluster_options

if TYPE_CHECKING:
    from kfetch.admin.samples import SampleReport

_NAMES_MAX = 10


def infer(
    servers: Annotated[
        str, typer.Argument(metavar="HOST:PORT[,…]", help="Bootstrap servers of the cluster.")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to look at.")],
    records: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Read about this many of the newest records."),
    ] = 1_000,
    schema: Annotated[
        str, typer.Option(metavar="DDL", help="Check this schema instead of inferring one.")
    ] = "",
    key: Annotated[bool, typer.Option("--key", help="Look at keys, not at values.")] = False,
    option: Annotated[
        list[str] | None,
        option_pairs("An option kafka.NAME, kfetch.NAME, schema.registry.NAME, value… or key…"),
    ] = None,
    properties: PropertiesFile = None,
    as_json: Json = False,
) -> None:
    """Print the schema of a topic's JSON values as DDL, for the option valueSchema.

    The types are those of spark.read.json. The last line says how many records fit. With
    --schema the command checks your schema instead: it names records that do not fit, and
    fields that the schema lacks. It exits with 1 if a record does not fit.

    With the option valueRegistry, it prints the columns of values in Confluent's wire format,
    from the schema registry.

    \b
    Example: a schema of the newest 1,000 records
      kfetch infer localhost:9092 orders
    Example: do the newest 10,000 records still fit?
      kfetch infer localhost:9092 orders --records 10000 --schema "id BIGINT, name STRING"
    Example: the columns of values in Confluent's wire format
      kfetch infer localhost:9092 orders --properties orders.properties
    """
    from kfetch.admin import registry_samples, samples

    given = cluster_options(servers, properties, option or (), REGISTRIES)
    kafka = registry_samples.for_sample(given)
    sample = samples.read(kafka, topic, records, keys=key)
    if registry_samples.uses_registry(given, keys=key):
        found = registry_samples.report(given, topic, sample, keys=key)
    else:
        found = samples.report(sample, schema)
    print_result(as_json, asdict(found), _lines(found, topic))
    if found.fits + found.empty < found.records:
        raise typer.Exit(1)


def _lines(report: SampleReport, topic: str) -> Iterator[str]:
    if not report.records:
        yield f"topic {topic} has no records: produce some, or name another topic"
        return
    if report.schema:
        yield report.schema
    for path, counts in report.mixed_types.items():
        yield f"{path} is STRING, because records have several types: {_counted(counts)}"
    if report.unknown_fields:
        yield f"the schema lacks {_names(report.unknown_fields)}"
    if report.confluent:
        yield (
            "begin with a zero byte, as in Confluent's wire format, and are no JSON: "
            f"{report.confluent:,} of the records"
        )
    for misfit in report.first_misfits:
        yield (
            f"does not fit: {topic}-{misfit.partition}, offset {misfit.offset}: {misfit.reason}, "
            f"at byte {misfit.at}"
        )
    more = report.misfits - len(report.first_misfits)
    if more:
        yield f"does not fit: {more:,} more records"
    empty = f"; empty: {report.empty:,}" if report.empty else ""
    yield f"{report.fits:,} of {report.records:,} records fit{empty}"


def _counted(counts: Mapping[str, int]) -> str:
    first, *others = counts.items()
    rest = [f"{name} in {count:,}" for name, count in others]
    return ", ".join([f"{first[0]} in {first[1]:,} of {sum(counts.values()):,}", *rest])


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMES_MAX} more fields" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more
