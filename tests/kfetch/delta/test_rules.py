"""Tables that kfetch can't write straight: one sentence that names the feature."""

from __future__ import annotations

from typing import Any

import pytest

from kfetch.delta.rules import TableDescription, check_partitions, check_table
from kfetch.errors import TableRefused
from tests.kfetch.delta.tables import field


def table(**said: Any) -> TableDescription:
    """A plain table, and what is special about it."""
    plain: dict[str, Any] = {
        "location": "/lake/t",
        "writer_version": 2,
        "features": frozenset(),
        "properties": {},
        "fields": [field("id")],
        "partitions": [],
    }
    return TableDescription(**plain | said)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"properties": {"delta.constraints.positive": "id > 0"}}, "the constraint positive"),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        ({"fields": [field("g", **{"delta.generationExpression": "id + 1"})]}, "generated columns"),
        ({"fields": [field("i", **{"delta.identity.start": 1})]}, "identity columns"),
        ({"fields": [field("i", **{"delta.invariants": "{}"})]}, "invariants"),
        (
            {"fields": [field("s", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")]},
            "CHAR or VARCHAR columns",
        ),
        (
            {
                "fields": [
                    field(
                        "s",
                        {"type": "struct", "fields": [field("i", **{"delta.invariants": "{}"})]},
                    )
                ]
            },
            "invariants",
        ),
        ({"writer_version": 8}, "the writer version 8"),
        *(
            (
                {"properties": {f"delta.{name}RetentionDuration": text}},
                f"the property delta.{name}RetentionDuration with {text}, where delta-rs needs a "
                "text such as interval 365 days",
            )
            for name in ("log", "deletedFile")
            for text in (
                "INTERVAL 365 DAYS",
                "365 days",
                "interval '365' day",
                "interval 1 week 1 day",
            )
        ),
        (
            {"properties": {"delta.enableExpiredLogCleanup": "False"}},
            "the property delta.enableExpiredLogCleanup with False, where delta-rs needs a text "
            "such as false",
        ),
        *(
            ({"writer_version": 7, "features": frozenset({name})}, f"the feature {name}")
            for name in (
                "rowTracking",
                "inCommitTimestamp",
                "identityColumns",
                "domainMetadata",
                "clustering",
                "catalogManaged",
                "icebergCompatV2",
                "typeWidening",
                "variantType",
                "v2Checkpoint",
                "allowColumnDefaults",
                "materializePartitionColumns",
                "ofTomorrow",
            )
        ),
    ],
)
def test_what_is_refused(said: Any, named: str) -> None:
    """The sentence names the feature, and says what can write the table."""
    with pytest.raises(TableRefused) as caught:
        check_table(table(**said))

    assert f"the table /lake/t has {named}, and kfetch can't" in str(caught.value)
    assert (named,) == caught.value.features


@pytest.mark.parametrize(
    "said",
    [
        {"properties": {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}},
        {"properties": {"delta.columnMapping.mode": "none"}},
        {"properties": {"delta.enableExpiredLogCleanup": "false"}},
        {
            "writer_version": 7,
            "features": frozenset(
                {"appendOnly", "invariants", "deletionVectors", "timestampNtz", "columnMapping"}
            ),
        },
        {"writer_version": 6, "fields": [field("id", comment="a number")]},
    ],
)
def test_what_is_written(said: Any) -> None:
    """Features that ask nothing of an append, and those that no column uses."""
    check_table(table(**said))


def test_partition_columns_are_the_tables() -> None:
    """Their order counts, and their case does not."""
    check_partitions(table(partitions=["Day", "topic"]), ["day", "topic"])
    with pytest.raises(TableRefused, match=r"by day, topic, and the query by no column"):
        check_partitions(table(partitions=["day", "topic"]), [])
