"""Reads a sample of a topic's newest records, and says which schema its JSON has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from kfetch.errors import NoSuchPartition
from kfetch.model import TopicPartition

SAMPLE_BYTES_MAX = 64 << 20
MISFITS_MAX = 5


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a sample."""

    tp: TopicPartition
    offset: int
    value: bytes | None
    """Its value, or its key."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that does not fit the schema."""

    partition: int
    offset: int
    reason: str
    at: int
    """The byte in the value, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """What a sample says about a schema."""

    records: int
    schema: str
    """As DDL: the given one, or the one of the sample. Empty if no record is a JSON object."""
    fits: int
    empty: int
    """The number of null and empty values."""
    confluent: int
    """The number of values that look like Confluent's wire format."""
    misfits: int
    """The number of records that do not fit."""
    first_misfits: tuple[Misfit, ...]
    """At most five of them."""
    unknown_fields: tuple[str, ...]
    """Fields that records have and the schema lacks."""
    mixed_types: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Fields that are a STRING because records have several types: by their paths, the number of
    records with each type, the most frequent first."""


def read(kafka: Mapping[str, str], topic: str, count: int, *, keys: bool = False) -> list[Record]:
    """Returns about ``count`` of a topic's newest records, the same number of each partition.

    ``kafka`` has the options ``kafka.*`` of a source. ``keys``: take keys instead of values. At
    most 64 MiB are read. Opens sessions, and closes them. Raises OptionError, NoSuchPartition,
    ConnectionLost, WrongListener or BrokerError.
    """
    column = "key" if keys else "value"
    chosen = {
        **kafka,
        "subscribe": topic,
        "columns": f"partition,offset,{column}",
        "kfetch.agent": "inline",
        "failOnDataLoss": "false",
    }
    records, size = [], 0
    for record in _records(chosen, topic, count, column):
        size += len(record.value or b"")
        if size > SAMPLE_BYTES_MAX:
            break
        records.append(record)
    return records


def _records(chosen: Mapping[str, str], topic: str, count: int, column: str) -> Iterator[Record]:
    from kfetch.agent import inline
    from kfetch.spark.options import parse
    from kfetch.watch.batch_planning import plan_batch
    from kfetch.watch.lookups import OffsetLookup

    starts = _starts(chosen, topic, count)
    options = parse({**chosen, "startingOffsets": json.dumps({topic: starts})}, batch=True)
    with closing(OffsetLookup(options)) as lookup:
        splits = plan_batch(options, lookup)
    rows = (
        row
        for split in splits
        for batch in inline.read_once(split, options)
        for row in batch.to_pylist()
    )
    for row in islice(rows, count):
        yield Record(TopicPartition(topic, row["partition"]), row["offset"], row[column])


def _starts(chosen: Mapping[str, str], topic: str, count: int) -> dict[str, int]:
    """Returns the offset in each partition from which on the sample reads."""
    from kfetch.spark.options import parse
    from kfetch.watch.lookups import OffsetLookup

    with closing(OffsetLookup(parse({**chosen, "fetchOffset.numRetries": "0"}))) as lookup:
        view = lookup.cluster_view()
        lookup.check_subscription(view)
        partitions = lookup.subscribed_partitions(view)
        first, last = lookup.log_starts(partitions), lookup.log_ends(partitions)
    if not first.keys() & last.keys():
        raise NoSuchPartition(f"{topic}: no such topic", action="check its name", topic=topic)
    each = -(-count // len(partitions))
    return {
        str(tp.partition): max(first[tp].offset, last[tp].offset - each)
        for tp in partitions
        if tp in first and tp in last
    }


def report(records: list[Record], schema: str = "") -> SampleReport:
    """Returns how records fit a schema: the given DDL, or the one that they have themselves.

    Raises OptionError for text that is no schema.
    """
    from kfetch.formats.columns.ddl import fields_text, kind_text, parse_schema
    from kfetch.formats.json.fit import fit, types_of
    from kfetch.formats.json.infer import merged, mixed, schema_of
    from kfetch.formats.json.time_zones import find_zone
    from kfetch.formats.json.times import Zones

    values = [record.value for record in records]
    types = [] if schema else types_of(values)
    wanted = parse_schema(schema, option="--schema") if schema else schema_of(merged(types))
    found = fit(values, wanted, Zones(0, find_zone))
    misfits = [
        Misfit(records[at].tp.partition, records[at].offset, problem.what, problem.at)
        for at, problem in found.problems[:MISFITS_MAX]
    ]
    return SampleReport(
        records=len(records),
        schema=fields_text(wanted),
        fits=found.good,
        empty=found.empty,
        confluent=found.confluent,
        misfits=len(found.problems),
        first_misfits=tuple(misfits),
        unknown_fields=found.unknown,
        mixed_types={
            path: {kind_text(kind): count for kind, count in kinds.most_common()}
            for path, kinds in mixed(types)
        },
    )
