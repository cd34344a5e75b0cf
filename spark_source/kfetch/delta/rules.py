"""Which Delta tables kfetch can write straight, by their protocol, properties and columns. Pure.

A table may ask its writers for more than rows. What kfetch does not do is an error that names the
feature. Source: Delta's PROTOCOL.md, "Requirements for Writers" and "Table Features".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kfetch.delta.types import TableField
from kfetch.errors import TableRefused

_HONOURED = {
    "appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz",
    # Harmless while no column and no property uses them, which ``_uses`` checks.
    "checkConstraints", "columnMapping", "generatedColumns", "invariants",
}  # fmt: skip
_FEATURES_VERSION = 7
"""Of writers. Tables of an older version have no list of features."""

_OF_FIELDS = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "invariants",
    "__CHAR_VARCHAR_TYPE_STRING": "CHAR or VARCHAR columns",
}
"""Keys of a field's metadata, and the features that they turn on."""

_DURATION = re.compile(r"interval \d+ ((nano|micro|milli)?second|minute|hour|day|week)s?")
_HISTORY = {
    "delta.logRetentionDuration": (_DURATION, "interval 365 days"),
    "delta.deletedFileRetentionDuration": (_DURATION, "interval 365 days"),
    "delta.enableExpiredLogCleanup": (re.compile("true|false"), "false"),
}
"""The forms of properties that delta-rs reads, each with an example. For any other form, which may
mean something to Spark, it takes its default without a word, and removes history that is asked for.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """What a table's log says of the table."""

    location: str
    writer_version: int
    features: frozenset[str]
    """Of readers and writers."""
    properties: Mapping[str, str]
    fields: Sequence[TableField]
    partitions: Sequence[str]
    """The names of the partition columns, in their order."""


def check_table(table: TableDescription) -> None:
    """Raises TableRefused if the table needs what kfetch does not do."""
    needs = sorted({*_unknown(table), *_uses(table)})
    if needs:
        raise TableRefused(
            f"the table {table.location} has {' and '.join(needs)}, and kfetch can't write such a "
            "table straight",
            action="write it with Spark's own sink, which goes on with the same checkpoint",
            features=tuple(needs),
        )


def _unknown(table: TableDescription) -> Iterator[str]:
    if table.writer_version > _FEATURES_VERSION:
        yield f"the writer version {table.writer_version}"
    for name in table.features - _HONOURED:
        yield f"the feature {name}"


def _uses(table: TableDescription) -> Iterator[str]:
    """Yields the features that the table uses. Old versions allow them without naming them."""
    for name, value in table.properties.items():
        if name.startswith("delta.constraints."):
            yield f"the constraint {name.removeprefix('delta.constraints.')}"
        if name == "delta.columnMapping.mode" and value.lower() != "none":
            yield "column mapping"
        if name in _HISTORY and not _HISTORY[name][0].fullmatch(value):
            example = _HISTORY[name][1]
            yield f"the property {name} with {value}, where delta-rs needs a text such as {example}"
    for field in table.fields:
        yield from (name for key, name in _OF_FIELDS.items() if key in str(field))


def check_partitions(table: TableDescription, ours: Sequence[str]) -> None:
    """Raises TableRefused if a table has other partition columns than the query."""
    if [name.lower() for name in ours] != [name.lower() for name in table.partitions]:
        theirs, mine = (", ".join(names) or "no column" for names in (table.partitions, ours))
        raise TableRefused(
            f"the table {table.location} is partitioned by {theirs}, and the query by {mine}",
            action="change partition_by, or write to another table",
        )
